# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the rollout may leave too few ready pods, for the workload itself or for a PodDisruptionBudget."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.messages import pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..rollout import update_strategy_type
from .budgets import budget_status_violation, budgets_of, lowest_ready


def downtime_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason if the rollout may leave no ready pod or fewer healthy pods than a budget requires.

    Return a reason also if the status of a budget is not reliable. None if the strategy removes no ready pod or enough pods remain.
    """
    ready, lowest = workload.status.ready_replicas, lowest_ready(workload)
    loss = ready - lowest
    strategy = update_strategy_type(workload)
    if loss <= 0 and strategy != "Recreate":
        return None
    advice = "use strategy evict_surplus, which moves one pod at a time, or restart it by name with allow_downtime"
    if lowest < 1:
        return Reason("downtime", f"the {strategy} strategy of {workload} may leave no ready pod; {advice}")
    for budget in budgets_of(workload, snapshot):
        unsure = budget_status_violation(budget, workload, snapshot)
        if unsure is not None:
            return unsure
        status = budget.status
        left = status.current_healthy - loss
        if left < status.desired_healthy:
            required = f"PodDisruptionBudget {budget.metadata.name} requires {pluralize(status.desired_healthy, 'healthy pod')}"
            if status.desired_healthy >= status.current_healthy:  # an eviction would be denied as well
                advice = "let the strategy create new pods first (maxUnavailable 0), relax the budget, or restart with allow_downtime"
            return Reason("budget", f"a rollout of {workload} may leave {pluralize(left, 'healthy pod')}, and {required}; {advice}")
    return None
