# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The eviction rules for one pod that needs capacity: the pods that may be evicted for it, and the reasons why others may not."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable

from ...model.api.pod import Pod
from ...model.reason import Reason
from ..critical import effective_priority
from ..eviction_rules.equal_priority import CRITICAL, EQUAL_PRIORITY, equal_priority_violation
from ..eviction_rules.higher_priority import higher_priority_violation
from ..eviction_rules.outside_window import MaintenanceWindows, outside_window_violation
from ..eviction_rules.safe_to_evict import NOT_SAFE_TO_EVICT
from ..eviction_rules.same_controller import same_controller_violation
from ..eviction_rules.would_preempt import would_preempt_violation
from ..eviction_rules.would_return import ReplacementCheck, would_return_violation
from ..options import RescueOptions
from ..pdb_ledger import BudgetKey, PdbLedger
from .node_pod import NodePod, Preemptor

_OPTIONAL = (CRITICAL, EQUAL_PRIORITY)
EXCLUDED = Reason("excluded", "its eviction was refused, so that it is excluded for now")


def preemptor_of(pod: Pod, options: RescueOptions) -> Preemptor:
    """Return the priorities of the pod that needs the capacity."""
    return Preemptor(effective_priority(pod, options), pod.spec.priority or 0, options.allow_equal_priority)


def priority_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return the first reason about priorities that forbids the eviction of the pod for this preemptor. Return None if there is none."""
    if node_pod.priority < preemptor.priority <= preemptor.spec_priority and not node_pod.protected:
        return None  # true for most pods, so it is checked first
    return (
        higher_priority_violation(node_pod, preemptor)
        or would_preempt_violation(node_pod, preemptor)
        or equal_priority_violation(node_pod, preemptor)
    )


class EvictionFilter:
    """The eviction rules for one pod, by its options. Budgets count in their state at the time of the call.

    ``excluded_victims``: uids of pods that may not be evicted now. ``replacements``: checks whether a replacement would use the capacity
    again. ``windows``: the maintenance windows, if the options respect them.
    """

    def __init__(
        self,
        pod: Pod,
        options: RescueOptions,
        budgets: PdbLedger,
        excluded_victims: Collection[str] = frozenset(),
        replacements: t.Optional[ReplacementCheck] = None,
        windows: t.Optional[MaintenanceWindows] = None,
    ) -> None:
        self._windows = windows
        self._replacements = replacements
        self._budgets = budgets
        self._excluded_victims = frozenset(excluded_victims)
        self._preemptor = preemptor_of(pod, options)
        controller = pod.metadata.controller
        self._owner = controller.uid if controller is not None else None

    def eviction_violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return the reason why the pod may not be evicted, budgets included. Return None if it may.

        A reason that no option changes comes before one that an option changes.
        """
        if node_pod.fixed_violation is not None:
            return node_pod.fixed_violation
        fixed = self._violation_for_pod(node_pod)
        if fixed is not None and fixed not in _OPTIONAL:
            return fixed
        if node_pod.options_violation is NOT_SAFE_TO_EVICT:
            return NOT_SAFE_TO_EVICT
        return fixed or node_pod.options_violation or self._current_violation(node_pod)

    def evictable_pods(self, movable: Iterable[NodePod]) -> list[tuple[NodePod, t.Optional[BudgetKey]]]:
        """Return the pods that may be evicted, each with the budget that its eviction counts against.

        ``movable``: pods without a fixed violation and without an options violation.
        """
        status, excluded_victims, windows = self._budgets.status, self._excluded_victims, self._windows
        found: list[tuple[NodePod, t.Optional[BudgetKey]]] = []
        for node_pod in movable:
            pod = node_pod.pod
            outside = windows is not None and outside_window_violation(pod, windows) is not None
            if not outside and self._violation_for_pod(node_pod) is None and pod.metadata.uid not in excluded_victims:
                violation, budget = status(pod, node_pod.budget_status_key)
                if violation is None:
                    found.append((node_pod, budget))
        return found

    def _violation_for_pod(self, node_pod: NodePod) -> t.Optional[Reason]:
        """Return the reason why the pod may not be evicted for the pod that needs the capacity."""
        return (
            same_controller_violation(node_pod, self._owner)
            or priority_violation(node_pod, self._preemptor)
            or would_return_violation(node_pod, self._replacements)
        )

    def _current_violation(self, node_pod: NodePod) -> t.Optional[Reason]:
        outside = outside_window_violation(node_pod.pod, self._windows)
        if outside is not None:
            return outside
        if node_pod.pod.metadata.uid in self._excluded_victims:
            return EXCLUDED
        return self._budgets.status(node_pod.pod, node_pod.budget_status_key).violation
