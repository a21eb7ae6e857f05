# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a move cannot end within the time that the run waits for it. It would take the time and the limits of other workloads."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ..least_time import least_ready_s


def too_slow_violation(workload: Workload, move: str, least_s: int, timeout_s: t.Optional[int]) -> t.Optional[Reason]:
    """Return the reason if the move takes longer than ``timeout_s``. None if it may end in time, or without a timeout."""
    if timeout_s is None or least_s <= timeout_s:
        return None
    causes = (("minReadySeconds", workload.spec.min_ready_seconds), ("initialDelaySeconds of a probe", least_ready_s(workload)))
    named = " and ".join(f"{name} {seconds}" for name, seconds in causes if seconds)
    text = f"{move} takes at least {least_s} s ({named}), and wait_timeout is {timeout_s} s; raise wait_timeout, or set wait to false"
    return Reason("too_slow", text)
