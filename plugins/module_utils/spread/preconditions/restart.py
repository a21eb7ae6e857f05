# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The refusals that depend only on the workload and the snapshot, in the order of their checks.

``spread/restart/decision.py`` adds the benefit. It and ``spread/check.py`` add the maintenance window and the cooldown by
``not_now_violation`` (``spread/restart/permission.py``).
"""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.messages import pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..least_time import least_rollout_s, rollout_steps
from ..rollout import partition
from .admission.admission import admission_violation
from .admission.quota import quota_violation
from .downtime import downtime_violation
from .host_path import host_path_violation
from .namespace_terminating import namespace_terminating_violation
from .no_ready_replica import no_ready_replica_violation
from .paused import paused_violation
from .rolling import rolling_violation
from .rollout_budget import rollout_budget_violation
from .shared_volume import shared_volume_violation
from .too_slow import too_slow_violation
from .unhealthy_pods import unhealthy_pods_violation
from .unreadable import unreadable_violation
from .update_strategy.invalid_strategy import invalid_strategy_violation
from .update_strategy.on_delete import on_delete_violation
from .update_strategy.partition import partition_violation
from .workload_terminating import workload_terminating_violation


def restart_violation(workload: Workload, snapshot: ClusterSnapshot, *, allow_downtime: bool) -> t.Optional[Reason]:
    """Return the reason why the workload must not be restarted now. None if nothing forbids it."""
    return (
        rollout_violation(workload, snapshot)
        or unreadable_violation(workload, snapshot, budgets=not allow_downtime)
        or move_violation(workload, snapshot)
        or disruption_violation(workload, snapshot, allow_downtime=allow_downtime)
    )


def rollout_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why a rollout of the workload would make no progress. None if it would make progress."""
    return standstill_violation(workload, snapshot) or strategy_violation(workload)


def standstill_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the workload stays as it is until it is resumed or gone. None otherwise."""
    return namespace_terminating_violation(workload, snapshot) or workload_terminating_violation(workload) or paused_violation(workload)


def strategy_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why the update strategy makes no rollout. None if it makes one. It forbids no eviction."""
    return invalid_strategy_violation(workload) or on_delete_violation(workload)


def move_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the pods must not be moved now, neither by a rollout nor by evictions. None if they may be moved."""
    return (
        rolling_violation(workload, snapshot)
        or unhealthy_pods_violation(workload, snapshot)
        or no_ready_replica_violation(workload, snapshot)
        or shared_volume_violation(workload, snapshot)
        or host_path_violation(workload, snapshot)
        or admission_violation(workload, snapshot)
    )


def disruption_violation(
    workload: Workload, snapshot: ClusterSnapshot, *, allow_downtime: bool, timeout_s: t.Optional[int] = None
) -> t.Optional[Reason]:
    """Return the reason why a rollout with this strategy and number of replicas would cause harm, move no pod or take too long.

    None otherwise. It forbids no eviction of a single pod. ``timeout_s``: the time for which the run waits.
    """
    steps = pluralize(rollout_steps(workload), "step")
    return (
        partition_violation(workload)
        or quota_violation(workload, snapshot, pods=workload.spec.replicas - partition(workload))
        or (None if allow_downtime else downtime_violation(workload) or rollout_budget_violation(workload, snapshot))
        or too_slow_violation(workload, f"a rollout of {workload} in {steps}", least_rollout_s(workload), timeout_s)
    )
