# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the time since the last restart is shorter than the cooldown, or than the back-off after attempts without progress."""

from __future__ import annotations

import typing as t

from ...model.backoff import Backoff
from ...model.reason import Reason
from ...model.values.timestamps import parse_time
from ...state.restart_outcome import RestartOutcome

MAX_DOUBLINGS = 10


def cooldown_violation(outcome: RestartOutcome, attempts: int, *, now_s: float, cooldown_s: int) -> t.Optional[Reason]:
    """Return the reason if the pause after ``outcome`` is not over at ``now_s`` (seconds since the epoch). None if it is.

    ``cooldown_s`` applies after every outcome. After n ``attempts`` without progress the pause is cooldown_s · 2^(n-1). Without a cooldown
    an outcome up to a second ahead counts as past: two restarts can be in one second, and the second outcome gets the next one.
    """
    pause_s = Backoff(cooldown_s, cooldown_s * 2**MAX_DOUBLINGS).pause_s(attempts)
    left_s = parse_time(outcome.time) + pause_s - now_s
    if left_s <= (0 if cooldown_s else 1):
        return None
    last = f"cooldown since {outcome.time}: the last result was {outcome.outcome}, attempts {attempts}"
    return Reason("cooldown", f"{last}; next attempt in {int(left_s) + 1} s at the earliest")
