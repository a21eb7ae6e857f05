# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods that are expected to get a node later. Evictions there for another pod would use the same capacity."""

from __future__ import annotations

import typing as t

from ..model.api.pod import Pod
from .plan import RescuePlan


class _Expected(t.NamedTuple):
    plan: RescuePlan
    priority: int


class ExpectedPods:
    """The plans of the pods that the scheduler binds soon, and of those for which evictions begin later."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Expected] = {}

    def add(self, plan: RescuePlan, priority: int) -> None:
        """Add the plan of a pod, or replace it. ``priority``: the priority of the pod for rescues."""
        self._by_uid[plan.pod.metadata.uid] = _Expected(plan, priority)

    def before(self, pod: Pod, priority: int) -> dict[str, RescuePlan]:
        """Return the nodes that another pod gets before a pod with this priority, each with the plan of one such pod.

        The other pod has a higher priority, or it has the same priority and needs no evictions. If both have the same priority and the
        other one needs evictions, this pod does not wait for it.
        """
        others = (one for uid, one in self._by_uid.items() if uid != pod.metadata.uid)
        first = (one for one in others if one.priority > priority or (one.plan.expected_node and one.priority == priority))
        return {one.plan.expected_node or one.plan.next_node: one.plan for one in first}
