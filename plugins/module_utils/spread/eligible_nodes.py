# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Eligible nodes of a workload, by the scheduler's static rules and by rules that the scheduler does not have.

An image is seldom built for every architecture. A virtual kubelet accepts almost any pod, although it cannot run it.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.api.workload import Workload
from ..model.caches import IdentityDict
from ..model.scheduler_profile import DEFAULT_PROFILE, SchedulerProfile
from ..model.snapshot import ClusterSnapshot
from ..scheduler.static_filters import static_filters
from ..scheduler.static_signature import static_signature
from ..state.restart_outcome import eligible_hash
from .next_pod.next_pod import next_pod

PLATFORM_LABELS = ("kubernetes.io/os", "kubernetes.io/arch")
VIRTUAL_KUBELET_TAINT = "virtual-kubelet.io/provider"


class Eligible(t.NamedTuple):
    """The names of the nodes that are eligible for a workload's next pods.

    All workloads with the same nodes share one tuple of ``names``. ``rules_hash`` is the ``eligible_hash`` of the nodes that the static
    rules allow; it does not depend on the nodes of the workload's pods.
    """

    names: tuple[str, ...]
    rules_hash: str


class EligibleNodes:
    """Finds the eligible nodes of workloads. Each workload is computed once, and equal static rules are computed once for all workloads."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._by_rules: dict[tuple[bytes, SchedulerProfile], Eligible] = {}
        self._able: IdentityDict[tuple[str, ...]] = IdentityDict()
        self._by_workload: dict[str, Eligible] = {}
        nodes = snapshot.nodes.values()
        # In most clusters all nodes have the same platform and none is virtual. The static rules are sufficient then.
        self._mixed = [label for label in PLATFORM_LABELS if len({node.labels.get(label) for node in nodes}) > 1]
        self._any_virtual = any(_is_virtual_kubelet(node) for node in nodes)

    def of(self, workload: Workload) -> Eligible:
        """Return the nodes that are eligible for the workload."""
        uid = workload.metadata.uid
        found = self._by_workload.get(uid)
        if found is None:
            pod = next_pod(workload, self._snapshot).pod
            allowed = self._by_static_rules(pod)
            found = self._by_workload[uid] = Eligible(self._able_to_run(workload, pod, allowed.names), allowed.rules_hash)
        return found

    def open_to_any(self, workloads: Iterable[Workload]) -> set[str]:
        """Return the nodes that are eligible for a pod without any rules or for at least one of the workloads."""
        answers = [self._by_static_rules(Pod()).names, *(self.of(workload).names for workload in workloads)]
        # Equal tuples are compared by identity, because the hash of thousands of names is slow.
        return set().union(*{id(names): names for names in answers}.values())

    def _able_to_run(self, workload: Workload, pod: Pod, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the allowed nodes on which the workload's image can be expected to start."""
        if not self._mixed and not self._any_virtual:
            return names
        placed = self._snapshot.placed_pods(workload)
        node_names = [self._snapshot.nodes[p.spec.node_name] for p in placed if p.spec.node_name in self._snapshot.nodes]
        platforms = {label: _only_value(label, node_names) for label in self._mixed if not _selects_label(pod, label)}
        virtual = _accepts_virtual_kubelet(pod)
        key = (id(names), tuple(platforms.items()), virtual)
        known = self._able.get(key)
        if known is not None:
            return known[1]
        nodes = self._snapshot.nodes
        return self._able.keep(key, names, tuple(name for name in names if _can_run(nodes[name], platforms, virtual=virtual)))

    def _by_static_rules(self, pod: Pod) -> Eligible:
        profile = self._snapshot.profile_of(pod)
        key = static_signature(pod), profile
        found = self._by_rules.get(key)
        if found is None:
            names = tuple(eligible_nodes(pod, self._snapshot.nodes.values(), profile))
            found = self._by_rules[key] = Eligible(names, eligible_hash(names))
        return found


def eligible_nodes(pod: Pod, nodes: Iterable[Node], profile: SchedulerProfile = DEFAULT_PROFILE) -> list[str]:
    """Return the names of the nodes that are Ready, schedulable, and allowed by the pod's selector, node affinity and tolerations.

    The scheduler does not check whether a node is Ready. It only checks the taint that the node then has.
    """
    checks = static_filters(pod, profile)
    return [node.name for node in nodes if node.ready and not any(check(node) for check in checks)]


def _only_value(label: str, nodes: list[Node]) -> t.Optional[str]:
    values = {node.labels.get(label) for node in nodes}
    return values.pop() if len(values) == 1 else None


def _can_run(node: Node, platforms: dict[str, t.Optional[str]], *, virtual: bool) -> bool:
    for label, needed in platforms.items():
        if needed is not None and node.labels.get(label, needed) != needed:
            return False
    return virtual or not _is_virtual_kubelet(node)


def _is_virtual_kubelet(node: Node) -> bool:
    if node.labels.get("type") == "virtual-kubelet":
        return True
    return any(taint.key == VIRTUAL_KUBELET_TAINT for taint in node.spec.taints or ())


def _accepts_virtual_kubelet(pod: Pod) -> bool:
    tolerated = any(toleration.key == VIRTUAL_KUBELET_TAINT for toleration in pod.spec.tolerations or ())
    return tolerated or _selects_label(pod, "type")


def _selects_label(pod: Pod, label: str) -> bool:
    """Return whether the pod itself requires values of the label."""
    if label in (pod.spec.node_selector or {}) or (label == "kubernetes.io/os" and pod.spec.os is not None):
        return True
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return any(
        expression.key == label
        for term in (required.node_selector_terms if required is not None else ())
        for expression in term.match_expressions or ()
    )
