# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The typed result of the spread check: one report for each workload, and the whole."""

from __future__ import annotations

import typing as t

from ..model.api.workload import Workload
from ..model.codec import Struct, field
from ..model.reason import Reason
from ..model.undecodable import Undecodable
from .distribution import Distribution
from .prediction.prediction import Prediction
from .verdict import Verdict


class WorkloadReport(Struct, frozen=True):
    """One workload's line of the report; ``interrupted``: an earlier run restarted it, or evicted from it, and has not seen the result."""

    workload: Workload
    verdict: Verdict
    placed: int = 0
    distributions: tuple[Distribution, ...] = ()
    eligible: tuple[str, ...] = ()
    eligible_hash: str = ""
    prediction: t.Optional[Prediction] = None
    advice: tuple[Reason, ...] = ()
    refusal: t.Optional[Reason] = None
    interrupted: bool = False

    @property
    def restartable(self) -> bool:
        """A restart helps and would not be refused."""
        return self.prediction is not None and self.prediction.restart_helps is True and self.refusal is None


class SpreadReport(Struct, frozen=True):
    """The whole check. ``reason`` is why nothing was judged, or None."""

    nodes_total: int
    nodes_ready: int
    nodes_eligible: int
    namespaces: int
    reason: t.Optional[Reason] = None
    workloads: tuple[WorkloadReport, ...] = ()
    skipped_namespaces: dict[str, str] = field(default_factory=dict)
    undecodable: tuple[Undecodable, ...] = ()

    def count(self, verdict: str) -> int:
        """How many workloads got this verdict."""
        return sum(report.verdict.verdict == verdict for report in self.workloads)
