# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Critical pods that no eviction helps, of several sorts, and nodes on which each sort fails by its own reason.

Each node has one pod that its budget keeps, one that the options keep, one that is as critical, and one that may be evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.bench.rescue.crowd import CRITICAL_PRIORITY, NO_BUDGETS, ORDINARY, Crowd, critical_pod

Json = dict[str, Any]

AGENTS = "agents"
"""The namespace of the pods that are as critical."""
HOST = "kubernetes.io/hostname"


def crowds(namespaces: Sequence[str], nodes: Sequence[str], *, replicas: int = 20) -> list[Crowd]:
    """Return the groups of pods that fill the nodes. Each group has one pod on every node."""
    crowd = Crowd(namespaces, nodes, replicas=replicas, priorities=ORDINARY, budgets=NO_BUDGETS)
    return [
        _only(crowd, 0, budgets={0: 1}),
        _only(crowd, 1, bare=True),
        _only(crowd, 2, priorities={CRITICAL_PRIORITY: 1}, namespaces=[AGENTS]),
        _only(crowd, 3),
    ]


def _only(crowd: Crowd, slot: int, **how: Any) -> Crowd:
    fields = {name: getattr(crowd, name) for name in Crowd.__dataclass_fields__}
    return Crowd(**{**fields, "seed": slot + 1, "slots": (slot,), **how})


def hopeless(number: int) -> Json:
    """A pod that no eviction helps; each number gives another template, and another sort in turn."""
    return SORTS[list(SORTS)[number % len(SORTS)]](number)


def possible(name: str) -> Json:
    """A pod that the eviction of the ordinary pod of some node helps."""
    return critical_pod(name, cpu="700m")


def _too_large(number: int) -> Json:
    return critical_pod(_name(number), cpu=f"{9000 + number}m")


def _budgets_closed(number: int) -> Json:
    """A pod that needs the capacity of the pod with the closed budget."""
    return critical_pod(_name(number), cpu=f"{1300 + number}m")


def _options_refuse(number: int) -> Json:
    """A pod that needs the capacity of bare pods too, not only of the pod with the closed budget."""
    return critical_pod(_name(number), cpu=f"{4300 + number}m")


def _critical_only(number: int) -> Json:
    """Only critical pods have as much memory as it lacks."""
    return critical_pod(_name(number), cpu=f"{1 + number}m", requests={"memory": f"{30000 + number}Mi"})


def _kept_apart(number: int) -> Json:
    """It may not be on a node with agents, which are on every node and may not be evicted."""
    return critical_pod(_name(number), cpu=f"{500 + number}m", affinity={"podAntiAffinity": _required(number, HOST, [AGENTS])})


def _kept_apart_by_zone(number: int) -> Json:
    zone = "topology.kubernetes.io/zone"
    return critical_pod(_name(number), cpu=f"{500 + number}m", affinity={"podAntiAffinity": _required(number, zone, [AGENTS])})


def _seeks_nobody(number: int) -> Json:
    """It has to be near pods that do not exist."""
    selector = {"matchLabels": {"app": f"nobody-{number}"}}
    term = {"topologyKey": HOST, "labelSelector": selector}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return critical_pod(_name(number), cpu=f"{500 + number}m", affinity=affinity)


def _selects_no_node(number: int) -> Json:
    return critical_pod(_name(number), cpu="700m", nodeSelector={"disk": f"sort-{number}"})


def _required(number: int, key: str, namespaces: list[str]) -> Json:
    expression = {"key": "app", "operator": "NotIn", "values": [f"nobody-{number}"]}
    term = {"topologyKey": key, "namespaces": namespaces, "labelSelector": {"matchExpressions": [expression]}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _name(number: int) -> str:
    return f"hopeless-{number:03}"


SORTS: dict[str, Callable[[int], Json]] = {
    "too large": _too_large,
    "budgets closed": _budgets_closed,
    "options refuse": _options_refuse,
    "critical pods only": _critical_only,
    "kept apart on every node": _kept_apart,
    "kept apart in every zone": _kept_apart_by_zone,
    "affinity to nobody": _seeks_nobody,
    "selector of no node": _selects_no_node,
}
