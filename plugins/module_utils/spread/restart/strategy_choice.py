# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The strategy for one workload: rollout or evict_surplus, where ``auto`` leaves the choice."""

from __future__ import annotations

from ...model.snapshot import ClusterSnapshot
from ..history import interrupted_eviction, interrupted_restart
from ..spread_report import WorkloadReport
from ..verdict import COLLAPSED, SKEWED
from .options import AUTO, EVICT_SURPLUS, ROLLOUT, RestartOptions


def choose_strategy(report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> str:
    """rollout or evict_surplus; for ``auto`` by what was begun, else rollout for collapsed workloads only.

    A rollout moves all replicas in one go, but with old pods counting it often ends uneven, and would be repeated for ever. What was begun
    in the other way is only finished where nothing is uneven any more, because that moves no further pod.
    """
    settles = options.only_if_helps and report.verdict.verdict not in (COLLAPSED, SKEWED)
    if options.strategy == AUTO or settles:
        if interrupted_eviction(report.workload, snapshot) is not None:
            return EVICT_SURPLUS
        if interrupted_restart(report.workload, snapshot) is not None:
            return ROLLOUT
    if options.strategy != AUTO:
        return options.strategy
    return ROLLOUT if report.verdict.verdict == COLLAPSED else EVICT_SURPLUS
