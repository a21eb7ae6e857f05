# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the rollout may leave fewer healthy pods than a PodDisruptionBudget requires. A rollout bypasses budgets."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.messages import pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..rollout import update_strategy_type
from .budget_status import budget_status_violation
from .downtime import ADVICE
from .workload_budgets import budgets_of, lowest_ready


def rollout_budget_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason if the rollout may leave fewer healthy pods than a budget requires, or if a budget's status is not reliable.

    None if the strategy removes no ready pod, or enough pods remain.
    """
    loss = workload.status.ready_replicas - lowest_ready(workload)
    if loss <= 0 and update_strategy_type(workload) != "Recreate":
        return None
    for budget in budgets_of(workload, snapshot):
        unsure = budget_status_violation(budget, workload, snapshot)
        if unsure is not None:
            return unsure
        status, advice = budget.status, ADVICE
        left = status.current_healthy - loss
        if left < status.desired_healthy:
            required = f"PodDisruptionBudget {budget.metadata.name} requires {pluralize(status.desired_healthy, 'healthy pod')}"
            if status.desired_healthy >= status.current_healthy:  # an eviction would be denied as well
                advice = "let its update strategy create new pods first (maxUnavailable 0), relax the budget, or set allow_downtime"
            return Reason("budget", f"a rollout of {workload} may leave {pluralize(left, 'healthy pod')}, and {required}; {advice}")
    return None
