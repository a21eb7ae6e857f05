# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pauses between repetitions: each failure in a row doubles the pause, up to a longest one."""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass

MAX_DOUBLINGS = 32
"""More doublings than any longest pause allows. The number of failures may come from an annotation that a person has written."""


@dataclass(frozen=True)
class Backoff:
    """The pauses after failures in a row, in seconds: ``first_s`` after the first one, then twice as long each time, at most ``longest_s``.

    ``jitter`` is the share of a pause that is random, from 0 (always the whole pause) to 1 (any part of it). It keeps programs that fail at
    the same time from repeating at the same time.
    """

    first_s: float
    longest_s: float
    jitter: float = 0.0

    def pause_s(self, failures: int, *, share: t.Callable[[], float] = random.random) -> float:
        """Return the seconds of the pause after so many failures in a row, which is 1 after the first one.

        ``share`` returns a random number from 0 to 1.
        """
        doublings = min(max(failures - 1, 0), MAX_DOUBLINGS)
        pause_s = min(self.first_s * 2.0**doublings, self.longest_s)
        return pause_s * (1 - self.jitter * share()) if self.jitter else pause_s
