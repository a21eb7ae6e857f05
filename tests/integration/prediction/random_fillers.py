# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods that use the capacity of the nodes of a random cluster. The affinity terms of workloads select some of them."""

from __future__ import annotations

from collections.abc import Iterable

from tests.integration.prediction.capacity import Capacity
from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import HOST, NAMESPACE, ZONE, CaseNode, Json

APPS = ("cache", "db", "batch")
USED = (0.0, 0.2, 0.5, 0.8, 0.95)
MOST_PODS = 3
ANTI_AFFINITY_RATE = 0.03
"""The share of the pods with an anti-affinity against workloads of tier front."""
TIGHT_RATE = 0.3
"""The share of the clusters in which most nodes have little free capacity beside the workloads."""
FULL_RATE = 0.7
USED_BY_LAST = (0.6, 1.0)
"""The share of the remaining cpu that such a node loses."""
USED_IN_FULL_CLUSTER = (0.8, 1.0)
"""The same, for every node of a full cluster."""


def random_fillers(choices: Choices, nodes: Iterable[CaseNode], capacity: Capacity) -> list[Json]:
    """Return the pods, each with its node."""
    usual = choices.choice(USED)
    found = []
    for node in nodes:
        share = choices.choice(USED) if choices.chance(0.4) else usual
        count = choices.randint(0, MOST_PODS)
        for number in range(count):
            cpu = int(node.cpu_m * share * choices.uniform(0.5, 1) / count)
            memory = int(node.memory_mi * share * choices.uniform(0.2, 1) / count)
            if capacity.has(node.name, cpu, memory):
                capacity.use(node.name, cpu, memory)
                found.append(_filler(choices, f"filler-{node.name}-{number}", node.name, cpu, memory))
    return found


def tight_fillers(choices: Choices, nodes: Iterable[CaseNode], capacity: Capacity, *, is_full: bool) -> list[Json]:
    """Return pods that use most of the remaining capacity: of most nodes in some of the clusters, of all nodes in full ones."""
    if not is_full and not choices.chance(TIGHT_RATE):
        return []
    found = []
    for node in nodes:
        cpu, memory = capacity.free(node.name)
        cpu, memory = (
            int(cpu * choices.uniform(*(USED_IN_FULL_CLUSTER if is_full else USED_BY_LAST))),
            int(memory * choices.uniform(0.3, 1)),
        )
        if (is_full or choices.chance(FULL_RATE)) and capacity.has(node.name, cpu, memory):
            capacity.use(node.name, cpu, memory)
            found.append(_filler(choices, f"filler-{node.name}-last", node.name, cpu, memory))
    return found


def _filler(choices: Choices, name: str, node: str, cpu_m: int, memory_mi: int) -> Json:
    requests = {"cpu": f"{cpu_m}m", "memory": f"{memory_mi}Mi"} if cpu_m and memory_mi else {}
    container = {"name": "main", "image": "registry.example.com/other:1", "resources": {"requests": requests}}
    spec: Json = {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]}
    if choices.chance(ANTI_AFFINITY_RATE):
        spec["affinity"] = {"podAntiAffinity": _against_front(choices)}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": choices.choice(APPS)}}, "spec": spec}


def _against_front(choices: Choices) -> Json:
    term = {"topologyKey": choices.choice((HOST, HOST, ZONE)), "labelSelector": {"matchLabels": {"tier": "front"}}}
    if choices.chance(0.3) and term["topologyKey"] == HOST:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": choices.choice((10, 50, 100)), "podAffinityTerm": term}]}
