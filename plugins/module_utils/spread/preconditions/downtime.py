# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the update strategy may leave no ready pod."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ..rollout import update_strategy_type
from .workload_budgets import lowest_ready

ADVICE = "use strategy evict_surplus, which moves one pod at a time, or restart it by name with allow_downtime"


def downtime_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason if the rollout may leave no ready pod. None if the strategy removes no ready pod, or at least one remains."""
    strategy, lowest = update_strategy_type(workload), lowest_ready(workload)
    if lowest >= 1 or (workload.status.ready_replicas <= lowest and strategy != "Recreate"):
        return None
    return Reason("downtime", f"the {strategy} strategy of {workload} may leave no ready pod; {ADVICE}")
