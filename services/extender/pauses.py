# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pauses of the work in the background, so that requests are answered first.

Python runs one thread at a time. A thread that calculates for long would slow down every request by its share of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Pause = Callable[[], None]
"""Is called between two short parts of the work."""

T = TypeVar("T")

BATCH = 128
"""Items between two pauses. They take less than half a millisecond if one takes less than 4 µs."""

SHORTEST_S, LONGEST_S = 0.0001, 0.02
REST = 3
"""The length of a pause in multiples of the work before it. The work then takes a quarter of the time while requests come."""


def no_pause() -> None:
    """Continue without a pause, for calculations that a request waits for."""


def with_pauses(items: Sequence[T], pause: Pause, size: int = BATCH) -> Iterator[T]:
    """Return the items, with a pause after each ``size`` of them."""
    for start in range(0, len(items), size):
        yield from items[start : start + size]
        pause()


class RequestPause:
    """Pauses for as long as requests come. Without requests the work continues immediately.

    ``sleep`` receives seconds. ``clock`` returns the seconds in which the thread has calculated.
    """

    def __init__(self, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.thread_time) -> None:
        self._sleep, self._clock = sleep, clock
        self._requests = 0
        self._seen = threading.local()

    def note_request(self) -> None:
        """Note that a request was received. It is called in one thread."""
        self._requests += 1

    def __call__(self) -> None:
        """Pause if a request was received since the last pause of this thread."""
        seen, now_s, requests = self._seen.__dict__, self._clock(), self._requests
        if requests != seen.get("requests", 0):
            worked_s = now_s - seen.get("resumed_at_s", now_s)
            self._sleep(min(LONGEST_S, max(SHORTEST_S, REST * worked_s)))
        else:
            self._sleep(0)
        # A request that came during the pause does not prolong the next one.
        seen["requests"], seen["resumed_at_s"] = requests, self._clock()
