# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pauses of the work in the background, so that requests are answered first.

Python runs one thread at a time. A thread that calculates for long would slow down every request by its share of the time. So the work is
done in short slices between requests: the thread stops until a request is answered, and continues when the answer is written.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

Pause = Callable[[], None]
"""Is called between two short parts of the work. Most calls return immediately, so that it can be called after each part."""

T = TypeVar("T")

BATCH = 16
"""Items between two calls of a pause. They take less than a tenth of a millisecond if one takes less than 6 µs."""

LEAST_SLICE_S, MOST_SLICE_S = 0.0001, 0.0003
"""The least and the most work between two pauses. A request that comes meanwhile waits for its end."""

LONGEST_S = 0.02
"""The longest pause, also if a request is still being answered. Requests without end cannot stop the work."""

REST = 5
"""The length of the pauses in multiples of the work. The work takes about a sixth of the time while requests come."""


def no_pause() -> None:
    """Continue without a pause, for calculations that a request waits for."""


def with_pauses(items: Iterable[T], pause: Pause, size: int = BATCH) -> Iterator[T]:
    """Return the items, with a pause after each ``size`` of them."""
    every = iter(items)
    while batch := list(islice(every, size)):
        yield from batch
        pause()


def free_with_pauses(objects: list[T], pause: Pause) -> None:
    """Remove all objects from the list, with pauses. The objects that nothing else uses are freed meanwhile.

    The release of a large structure is one step of the interpreter, which takes milliseconds.
    """
    while objects:
        del objects[-BATCH:]
        pause()


class RequestPause:
    """Pauses for as long as requests come. Without requests the work continues immediately.

    ``wait`` receives seconds; by default it ends earlier when a request is answered. ``clock`` returns the seconds in which the thread has
    calculated.
    """

    def __init__(self, wait: Callable[[float], None] | None = None, clock: Callable[[], float] = time.thread_time) -> None:
        self._wait, self._clock = wait or self._wait_for_answer, clock
        self._requests = 0
        self._is_answering = False
        self._is_waiting = False
        self._answers: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._threads = threading.local()

    def begin_request(self) -> None:
        """Note that a request was received. One thread receives the requests, one after the other."""
        self._requests += 1
        self._is_answering = True

    def end_request(self) -> None:
        """Note that the request was answered, and end a pause. Of several threads in a pause it ends that of one only."""
        self._is_answering = False
        if self._is_waiting:
            self._is_waiting = False
            self._answers.put(None)

    def __call__(self) -> None:
        """Pause if the thread has worked for a slice of time and a request has come meanwhile."""
        thread, now_s = self._threads.__dict__, self._clock()
        worked_s = now_s - thread.setdefault("resumed_at_s", now_s)
        if worked_s < thread.get("slice_s", LEAST_SLICE_S):
            return
        rest_s = min(LONGEST_S, REST * worked_s)
        if self._is_answering or self._requests != thread.get("requests", 0):
            began_at_s = time.monotonic()
            self._wait(LONGEST_S if self._is_answering else rest_s)
            # After a long request the next slice is longer, so that the work keeps its share of the time.
            thread["slice_s"] = min(MOST_SLICE_S, max(LEAST_SLICE_S, (time.monotonic() - began_at_s) / REST))
        else:
            self._wait(0)
        # A request that came during the pause does not prolong the next one.
        thread["requests"], thread["resumed_at_s"] = self._requests, self._clock()

    def _wait_for_answer(self, seconds: float) -> None:
        if not seconds:
            return time.sleep(0)
        self._is_waiting = True
        with contextlib.suppress(queue.Empty):
            self._answers.get(timeout=seconds)
        self._is_waiting = False
        return None
