# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random Deployments and StatefulSets whose replicas are concentrated on the nodes of one domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.integration.prediction.capacity import Capacity, domains_of
from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import HOST, IMAGES, NAMESPACE, PRIORITY_CLASS, CaseNode, CaseWorkload, Json
from tests.integration.prediction.random_rules import Rules, random_rules

Bounds = tuple[int | str | None, int | str | None]

BOUNDS: tuple[Bounds, ...] = ((None, None), (1, 0), (0, 1), ("50%", "50%"), (2, 1), (0, "100%"), ("100%", 0), (3, 0))
"""maxSurge and maxUnavailable of Deployments."""
BOUNDS_IN_FULL_CLUSTER: tuple[Bounds, ...] = ((0, 1), (0, 1), (0, 2), (0, "50%"), (1, 0), (1, 1))
REQUESTS = ((0, 0), (50, 64), (100, 128), (250, 512), (400, 256), (500, 1024), (900, 512), (1500, 2048), (2500, 1024))
"""cpu in millicores and memory in MiB."""
REPLICAS = ((2, 8), (2, 8), (2, 8), (2, 8), (9, 16))
"""Ranges of the number of replicas."""
GRACE_S = {0: 0.3, 1: 0.7}
"""Grace periods in seconds, with their weights."""
SLOW_RATE = 0.7
"""The share of the workloads whose pods are Ready one second after their start, and not immediately."""
STOP_RATE = 0.35
"""The share of the Deployments whose old pods end at different times, STOPS_S after their deletion."""
STOPS_S = (0, 0, 1, 2, 3)
LONG_GRACE_S = 30
JITTER_RATE = 0.4
"""The share of these whose pods become Ready up to JITTER_S later, each at another time."""
JITTER_S = 2
MOST_SLOW = 3
"""A StatefulSet with more replicas has fast pods, because its pods are replaced one after the other."""
SPREAD_REST_RATE = 0.5
"""The share of the workloads with a few replicas in other domains, if ``max_skew`` makes them uneven."""


def random_workload(
    choices: Choices,
    name: str,
    nodes: Sequence[CaseNode],
    capacity: Capacity,
    topology_keys: Sequence[str],
    scheduler_name: str | None,
    *,
    skewed: bool,
    is_full: bool,
) -> CaseWorkload | None:
    """Return a workload. ``skewed``: some replicas may be in other domains. None if no domain has the capacity for it."""
    kind = "StatefulSet" if choices.chance(0.3) else "Deployment"
    rules = random_rules(choices, name, revisions=kind == "Deployment")
    replicas = choices.randint(*choices.choice(REPLICAS))
    pod = _pod(choices)
    one_per_node = rules.one_per_node or pod.has_host_port
    node_names = _node_names(
        choices, nodes, capacity, topology_keys, rules, pod.request, replicas, one_per_node=one_per_node, skewed=skewed
    )
    if node_names is None:
        return None
    manifest = _manifest(choices, name, kind, replicas, pod, rules, scheduler_name, BOUNDS_IN_FULL_CLUSTER if is_full else BOUNDS)
    stop_after_s: tuple[int, ...] = ()
    if kind == "Deployment" and choices.chance(STOP_RATE):
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = LONG_GRACE_S
        stop_after_s = tuple(choices.choices(STOPS_S, k=replicas))
    return CaseWorkload(manifest, tuple(node_names), stop_after_s)


def _node_names(
    choices: Choices,
    nodes: Sequence[CaseNode],
    capacity: Capacity,
    topology_keys: Sequence[str],
    rules: Rules,
    request: tuple[int, int],
    replicas: int,
    *,
    one_per_node: bool,
    skewed: bool,
) -> list[str] | None:
    keys = [key for key in topology_keys if not (one_per_node and key == HOST)]
    if not keys:
        return None
    key = choices.choice(keys)
    domains = domains_of(nodes, key, rules.allows)
    domain_names = list(domains)
    choices.shuffle(domain_names)
    elsewhere = choices.randint(1, max(1, replicas // 3)) if skewed and choices.chance(SPREAD_REST_RATE) else 0
    for domain in domain_names:
        node_names = capacity.place_replicas(choices, domains[domain], request, replicas - elsewhere, one_per_node=one_per_node)
        if node_names is None:
            continue
        others = [node for other, there in domains.items() if other != domain for node in there]
        rest = capacity.place_replicas(choices, others, request, elsewhere, one_per_node=one_per_node)
        if rest is not None:
            node_names += rest
            choices.shuffle(node_names)
            return node_names
        for name in node_names:
            capacity.release(name, *request)
    return None


class _Pod(NamedTuple):
    """The containers of a pod, and its request: cpu in millicores and memory in MiB."""

    spec: Json
    request: tuple[int, int]
    has_host_port: bool


def _pod(choices: Choices) -> _Pod:
    cpu, memory = choices.choice(REQUESTS)
    container: Json = {"name": "main", "image": choices.choice(tuple(IMAGES))}
    if cpu:
        wanted = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        container["resources"] = {choices.weighted({"requests": 0.9, "limits": 0.1}): wanted}
    spec: Json = {"containers": [container]}
    if cpu and choices.chance(0.06):
        cpu *= 2
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        spec["initContainers"] = [{"name": "first", "image": choices.choice(tuple(IMAGES)), "resources": {"requests": requests}}]
    has_host_port = choices.chance(0.05)
    if has_host_port:
        container["ports"] = [{"containerPort": 80, "hostPort": choices.choice((8080, 8081))}]
    if choices.chance(0.06):
        spec["priorityClassName"] = PRIORITY_CLASS["metadata"]["name"]
    return _Pod(spec, (cpu, memory), has_host_port)


def _manifest(
    choices: Choices,
    name: str,
    kind: str,
    replicas: int,
    pod: _Pod,
    rules: Rules,
    scheduler_name: str | None,
    bounds: Sequence[Bounds],
) -> Json:
    grace_s, is_slow = choices.weighted(GRACE_S), choices.chance(SLOW_RATE)
    if kind == "StatefulSet" and replicas > MOST_SLOW:
        grace_s, is_slow = 0, False
    pod_spec: Json = {**pod.spec, "terminationGracePeriodSeconds": grace_s, **rules.spec}
    if scheduler_name is not None:
        pod_spec["schedulerName"] = scheduler_name
    annotations = {"lab.onprem/ready-delay": "1"} if is_slow else {}
    if is_slow and choices.chance(JITTER_RATE):
        annotations["lab.onprem/ready-jitter"] = str(JITTER_S)
    labels = {"app": name, "tier": choices.choice(("front", "back"))}
    spec: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod_spec},
    }
    spec |= _stateful(choices, name, replicas) if kind == "StatefulSet" else {"strategy": _strategy(choices, bounds)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _strategy(choices: Choices, bounds: Sequence[Bounds]) -> Json:
    if choices.chance(0.15):
        return {"type": "Recreate"}
    surge, unavailable = choices.choice(bounds)
    rolling = {} if surge is None else {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    return {"type": "RollingUpdate", **rolling}


def _stateful(choices: Choices, name: str, replicas: int) -> Json:
    rolling: Json = {}
    if choices.chance(0.2):
        rolling["partition"] = choices.randint(1, replicas - 1)
    if choices.chance(0.2):
        rolling["maxUnavailable"] = choices.choice((1, 2, "50%"))
    found: Json = {
        "serviceName": name,
        "podManagementPolicy": choices.choice(("OrderedReady", "Parallel")),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    if choices.chance(0.15):
        found["ordinals"] = {"start": choices.randint(1, 3)}
    return found
