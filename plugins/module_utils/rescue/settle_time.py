# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settle time: the scheduler first gets time to place a pod, or to preempt other pods for it.

The time starts again when a node opens to the pod.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.scheduler_profile import DEFAULT_PROFILE, SchedulerProfile
from ..model.snapshot import ClusterSnapshot
from ..scheduler.preemption import could_preempt
from ..scheduler.static_filters import static_filters

NodeChange = tuple[t.Optional[Node], Node]
"""A node before the change (None if it has joined) and after it."""


def changed_nodes(before: Mapping[str, Node], now: Mapping[str, Node]) -> list[NodeChange]:
    """Return the nodes that have joined or changed. A node that has not changed is the same object in both mappings."""
    if before is now:
        return []
    return [(before.get(name), node) for name, node in now.items() if before.get(name) is not node]


def has_opened(pod: Pod, changes: Iterable[NodeChange], profile: SchedulerProfile = DEFAULT_PROFILE) -> bool:
    """Return whether a changed node is open to the pod now and was closed before, or has other labels or allocatable resources now.

    A node is open if it is Ready and its static filters allow the pod. A pod that ends does not count as a change: if the critical pod fits
    afterwards, it needs no rescue. ``profile``: that of the pod's scheduler.
    """
    checks = static_filters(pod, profile)

    def is_open(node: Node) -> bool:
        return node.ready and not any(check(node) for check in checks)

    return any(is_open(node) and (was is None or _differ(was, node) or not is_open(was)) for was, node in changes)


def _differ(was: Node, node: Node) -> bool:
    return was.labels != node.labels or was.status.allocatable != node.status.allocatable


def may_be_preempted_for(pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """Return whether the scheduler can preempt a pod of the cluster for this one, if that helps.

    It cannot if the preemptionPolicy is Never, if no plugin of the profile preempts, or if no pod has a lower ``spec.priority``. The
    annotation that makes a pod critical does not count for it.
    """
    if not snapshot.profile_of(pod).preempts:
        return False
    return any(could_preempt(pod, other.spec.priority or 0) for other in snapshot.pods if other.spec.node_name)


def was_preemption_useless(pod: Pod) -> bool:
    """Return whether the scheduler has preempted nothing in its last attempt at this unschedulable pod.

    It reports the attempt and the nomination for a node with one write. A report without a nomination therefore says that the profile does
    not preempt, or that no preemption helped (kubernetes ``schedule_one.go``, ``handleSchedulingFailure``).
    """
    return not pod.status.nominated_node_name
