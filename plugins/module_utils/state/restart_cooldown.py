# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The time of the next restart of a workload: cooldown, exponential back-off and the limit of attempts."""

from __future__ import annotations

import typing as t

from ..model.backoff import Backoff
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.values.timestamps import parse_time
from .restart_outcome import FUTURE_TOLERANCE_S, PENDING, RestartOutcome, SkewMeasure

MAX_DOUBLINGS = 10


class RestartPermission(t.NamedTuple):
    """The permission to restart a workload now.

    ``violation`` is the reason why no restart may start, or None. ``attempts`` includes this restart if it is permitted. Otherwise it is
    the number so far. ``lowest`` is the lowest skew for its outcome. If ``used_up`` is true, waiting alone does not help.
    """

    violation: t.Optional[Reason]
    attempts: int
    lowest: SkewMeasure
    used_up: bool = False


def cooldown_permission(
    outcome: RestartOutcome | None, *, now_s: float, revision: str, eligible: str, skew: SkewMeasure, cooldown_s: int, max_attempts: int
) -> RestartPermission:
    """Apply the cooldown, the exponential back-off and the limit of attempts.

    An outcome of another revision counts as absent, because the workload was rolled out since. ``skew`` is the present one. A pending
    attempt that has made progress does not count. ``cooldown_s`` applies after every outcome. After n attempts without progress the pause
    is cooldown_s · 2^(n-1). After ``max_attempts`` no restart is allowed until the revision or the eligible nodes change. A change of the
    eligible nodes allows one more attempt, after its back-off. Otherwise a node that repeatedly leaves and returns would cause repeated
    restarts.
    """
    if outcome is None or outcome.revision != revision or parse_time(outcome.time) > now_s + FUTURE_TOLERANCE_S:
        return RestartPermission(None, 1, skew)
    lowest = outcome.lowest_with(skew)
    attempts = max(0, outcome.attempts - (outcome.outcome == PENDING and outcome.is_progress(skew)))
    if attempts >= max_attempts and outcome.eligible == eligible:
        made = pluralize(attempts, "attempt")
        return RestartPermission(
            Reason(
                "attempts_used_up",
                f"{made} made no progress; a change of the workload or of its eligible nodes allows the next attempt",
            ),
            attempts,
            lowest,
            used_up=True,
        )
    pause_s = Backoff(cooldown_s, cooldown_s * 2**MAX_DOUBLINGS).pause_s(attempts)
    left_s = parse_time(outcome.time) + pause_s - now_s
    if left_s > 0:
        text = f"{outcome.outcome} at {outcome.time}, attempts {attempts}; next attempt in {int(left_s) + 1} s at the earliest"
        return RestartPermission(Reason("cooldown", text), attempts, lowest)
    return RestartPermission(None, attempts + 1, lowest)
