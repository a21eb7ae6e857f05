# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Which pods may make room for a pod, and what keeps the others where they are."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable

from ..model.api.pod import Pod
from ..model.reason import Reason
from .budgets import BudgetKey, Budgets
from .critical import effective_priority
from .options import RescueOptions
from .residents import NOT_SAFE_TO_EVICT, Resident, controlled_by, own_grace
from .returning import Returning

NEVER = "Never"
"""The preemptionPolicy of pods that preempt nobody."""

SAME_OWNER = Reason("same_owner", "it has the same controller as the pod that needs the room")
HIGHER_PRIORITY = Reason("higher_priority", "its priority is higher")
CRITICAL = Reason("critical", "it is critical itself; allow_equal_priority would allow it")
EQUAL_PRIORITY = Reason("equal_priority", "its priority is the same; allow_equal_priority would allow it")
WOULD_PREEMPT = Reason(
    "would_preempt",
    "its own priority is higher, so that the pod that replaces it could preempt the rescued pod; give the critical pod a priority class",
)
_OPTIONAL = (CRITICAL, EQUAL_PRIORITY)
RETURNS = Reason("would_return", "what replaces it is as important, has no other room, and tolerates the taint that would keep this one")
BANNED = Reason("banned", "it may not be evicted this time")


class Importance(t.NamedTuple):
    """How a pod compares with those that run, which decides about most of them whoever it is.

    ``own_priority``: what the scheduler goes by; ``priority`` also counts the annotation that makes a pod critical.
    """

    priority: int
    own_priority: int
    equal_may_go: bool

    @classmethod
    def of(cls, pod: Pod, options: RescueOptions) -> Importance:
        """The pod's."""
        return cls(effective_priority(pod, options), pod.spec.priority or 0, options.allow_equal_priority)

    def keeps(self, resident: Resident) -> t.Optional[Reason]:
        """Why the resident may not go for a pod of this importance."""
        if resident.priority > self.priority:
            return HIGHER_PRIORITY
        if self.own_priority < self.priority and could_preempt(resident.pod, self.own_priority):
            return WOULD_PREEMPT
        if self.equal_may_go:
            return None
        if resident.protected:
            return CRITICAL
        return EQUAL_PRIORITY if resident.priority == self.priority else None


class EvictionRules:
    """Who may go for one pod, by its options. What the budgets say counts as it is when asked.

    ``banned``: uids of pods that may not go now. ``returning``: tells who would come back.
    """

    def __init__(
        self,
        pod: Pod,
        options: RescueOptions,
        budgets: Budgets,
        banned: Collection[str] = frozenset(),
        returning: t.Optional[Returning] = None,
    ) -> None:
        self._returning = returning
        self._budgets = budgets
        self._banned = frozenset(banned)
        self._importance = Importance.of(pod, options)
        controller = pod.metadata.controller
        self._owner = controller.uid if controller is not None else None

    def immunity_of(self, resident: Resident) -> t.Optional[Reason]:
        """Why the pod may not be evicted, budgets included, None where it may; what no option changes comes before what one does."""
        if resident.never is not None:
            return resident.never
        fixed = self._between(resident)
        if fixed is not None and fixed not in _OPTIONAL:
            return fixed
        if resident.by_options is NOT_SAFE_TO_EVICT:
            return NOT_SAFE_TO_EVICT
        return fixed or resident.by_options or self._now(resident)

    def may_go(self, movable: Iterable[Resident]) -> list[tuple[Resident, t.Optional[BudgetKey]]]:
        """Those of the residents, whose own rules let them go, that may be evicted for the pod, each with the budget that it draws on."""
        standing, banned = self._budgets.standing, self._banned
        found: list[tuple[Resident, t.Optional[BudgetKey]]] = []
        for resident in movable:
            if self._between(resident) is None and resident.pod.metadata.uid not in banned:
                refusal, budget = standing(resident.pod, resident.budget_kind)
                if refusal is None:
                    found.append((resident, budget))
        return found

    def _between(self, resident: Resident) -> t.Optional[Reason]:
        """Why it may not go for this pod."""
        if resident.owner == self._owner:
            return SAME_OWNER
        kept = self._importance.keeps(resident)
        if kept is not None:
            return kept
        return RETURNS if self._returning is not None and self._returning.returns(resident) else None

    def _now(self, resident: Resident) -> t.Optional[Reason]:
        if resident.pod.metadata.uid in self._banned:
            return BANNED
        return self._budgets.standing(resident.pod, resident.budget_kind).refusal


def could_preempt(pod: Pod, priority: int) -> bool:
    """Another pod of the same template could preempt pods of this priority.

    For the scheduler only ``spec.priority`` counts, and not the annotation that makes a pod critical. Every profile counts as one that
    preempts, because none is known here.
    """
    return (pod.spec.priority or 0) > priority and pod.spec.preemption_policy != NEVER


def grace_of(pod: Pod, options: RescueOptions) -> int:
    """The whole seconds that the pod gets to end; never 0 for a StatefulSet's, whose successor must not run beside it."""
    cap = max(options.grace_period, 0 if options.force else 1)
    grace = min(own_grace(pod), cap)
    return max(grace, 1) if controlled_by(pod, "StatefulSet") else grace
