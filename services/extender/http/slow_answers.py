# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The threads for answers that need a calculation over all nodes. Meanwhile the event loop answers the scheduler."""

from __future__ import annotations

import asyncio
import typing as t
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

MAX_WAITING = 4
"""Answers that wait for the thread. A page about 5,000 nodes takes about a second, and nobody waits longer for one."""

T = t.TypeVar("T")


class BusyError(Exception):
    """Too many answers wait for the thread."""


class SlowAnswers:
    """One thread, so that people who load pages cannot take all the time of the scheduler's requests."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._open = 0

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of the call. Raises BusyError, and the errors of the call. Only the event loop calls this method."""
        if self._open > MAX_WAITING:
            raise BusyError(f"{MAX_WAITING} other requests already wait for an answer of this kind: try again")
        self._open += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        finally:
            self._open -= 1
