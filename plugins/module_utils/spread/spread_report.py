# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The typed result of the spread check: one report for each workload, and the whole report."""

from __future__ import annotations

import typing as t

from ..model.api.workload import Workload
from ..model.codec import Struct, field
from ..model.reason import Advice, Reason
from ..model.undecodable import Undecodable
from .distribution import Distribution
from .prediction.prediction import Prediction
from .verdict import Verdict


class WorkloadReport(Struct, frozen=True):
    """The report of one workload.

    ``interrupted``: an earlier run restarted it or evicted its pods, and the result is not recorded yet. ``left_out``: no action may move
    it, because it is one of the system and nothing names it.
    """

    workload: Workload
    verdict: Verdict
    placed: int = 0
    distributions: tuple[Distribution, ...] = ()
    eligible: tuple[str, ...] = ()
    eligible_hash: str = ""
    prediction: t.Optional[Prediction] = None
    advice: tuple[Advice, ...] = ()
    refusal: t.Optional[Reason] = None
    interrupted: bool = False
    left_out: bool = False

    @property
    def restartable(self) -> bool:
        """True if a restart helps and is not refused."""
        return self.prediction is not None and self.prediction.restart_helps is True and self.refusal is None


class SpreadReport(Struct, frozen=True):
    """The report of the whole check. ``reason`` is set if no workload was checked, and None otherwise."""

    nodes_total: int
    nodes_ready: int
    nodes_eligible: int
    namespaces: int
    reason: t.Optional[Reason] = None
    workloads: tuple[WorkloadReport, ...] = ()
    skipped_namespaces: dict[str, Reason] = field(default_factory=dict)
    undecodable: tuple[Undecodable, ...] = ()

    def count(self, verdict: str) -> int:
        """Return the number of workloads with this verdict."""
        return sum(report.verdict.verdict == verdict for report in self.workloads)
