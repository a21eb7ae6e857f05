# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The strategy for one workload: rollout or evict_surplus. The option ``auto`` leaves the choice to this module."""

from __future__ import annotations

from ...model.snapshot import ClusterSnapshot
from ..history import interrupted_eviction, interrupted_restart
from ..spread_report import WorkloadReport
from ..verdict import COLLAPSED, SKEWED
from .options import AUTO, EVICT_SURPLUS, ROLLOUT, RestartOptions


def choose_strategy(report: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions) -> str:
    """Return rollout or evict_surplus.

    For ``auto``, an interrupted operation decides; otherwise collapsed workloads get rollout. A rollout moves all replicas at the same
    time. Because old pods count, it often ends uneven and would be repeated forever. If the workload is even, an interrupted operation of
    the other strategy is only finished, because that moves no further pod.
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
