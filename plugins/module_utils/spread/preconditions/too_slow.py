# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a move cannot end within the time that the run waits for it. It would take the time and the limits of other workloads."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.messages import pluralize
from ...model.reason import Reason
from ..least_time import least_ready_s, least_replacement_s, least_rollout_s, rollout_steps


def too_slow_violation(workload: Workload, timeout_s: t.Optional[int], *, evicts: bool = False) -> t.Optional[Reason]:
    """Return the reason if a rollout, or an eviction, takes longer than ``timeout_s``. None if it may end in time, or without a timeout."""
    least_s = least_replacement_s(workload) if evicts else least_rollout_s(workload)
    if timeout_s is None or least_s <= timeout_s:
        return None
    steps = 1 if evicts else rollout_steps(workload)
    causes = (("minReadySeconds", workload.spec.min_ready_seconds), ("initialDelaySeconds of a probe", least_ready_s(workload)))
    named = " and ".join(f"{name} {seconds}" for name, seconds in causes if seconds)
    what = f"the replacement of a pod of {workload}" if evicts else f"a rollout of {workload} in {pluralize(steps, 'step')}"
    text = f"{what} takes at least {least_s} s ({named}), and wait_timeout is {timeout_s} s; raise wait_timeout, or set wait to false"
    return Reason("too_slow", text)
