# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a run that its caller stops, because the program must end or has lost its Lease."""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import wait
from functools import partial

from ...kube.background import run_in_background
from ...model.reason import Reason

Stop = t.Callable[[], t.Optional[Reason]]
"""Returns the reason why the run must end now. None if it may continue."""

ASKED_EVERY_S = 0.2
"""The interval in seconds at which ``Stop`` is called during a wait."""


class RunStoppedError(Exception):
    """The run must end. The outcomes of begun steps stay pending."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.text)
        self.reason = reason


def never_stop() -> t.Optional[Reason]:
    """Return None: the run continues until all targets are done."""
    return None


def raise_if_stopped(stop: Stop) -> None:
    """Raise RunStoppedError if the run must end."""
    reason = stop()
    if reason is not None:
        raise RunStoppedError(reason)


def wait_unless_stopped(calls: t.Sequence[t.Callable[[], None]], stop: Stop) -> list[float]:
    """Make the calls side by side and wait for all of them. Return the seconds that each has taken.

    Raise their errors, and RunStoppedError without waiting for their ends.

    The calls must only read, because they may continue after the end of the run.
    """
    futures = [run_in_background(partial(_timed, call)) for call in calls]
    while wait(futures, timeout=ASKED_EVERY_S).not_done:
        raise_if_stopped(stop)
    return [future.result() for future in futures]


def _timed(call: t.Callable[[], None]) -> float:
    begun_s = time.monotonic()
    call()
    return time.monotonic() - begun_s
