# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that fail while the machine does not run are repeated.

The tests work with Leases of 15 seconds and with programs that end if they get no answer in time. If the host of a virtual machine gives it
no processor for that time, the programs end as they should, and the tests fail. Only a failure in such a time is repeated, and the summary
names it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

import pytest

PAUSE_S = 0.25
GAP_S = 2.0
"""A pause of PAUSE_S that takes this much longer shows that the machine, or this process, did not run."""
STOLEN_SHARE = 0.15
"""The share of the processors that other machines of the host may use without an effect on tests."""
STAT = Path("/proc/stat")


class MachineStoodStillError(Exception):
    """A test failed, and the machine did not run for a part of the time. The option ``--only-rerun`` names this class."""


class Mark(NamedTuple):
    """A point in time. ``stolen`` and ``total``: clock ticks of all processors since the start of the machine."""

    stolen: int
    total: int


class Machine:
    """Measures the time for which the machine does not run. ``stat`` returns the text of /proc/stat."""

    def __init__(self, stat: Callable[[], str] | None = None) -> None:
        self._stat = stat or _read_stat
        self._gaps_s: list[float] = []
        threading.Thread(target=self._watch, name="machine", daemon=True).start()

    def mark(self) -> Mark:
        """Return the present point in time. Gaps before it do not count any more."""
        self._gaps_s.clear()
        return self._ticks()

    def lost_since(self, mark: Mark) -> str:
        """Return how long the machine did not run since the mark, as text. It is empty if the machine ran."""
        now = self._ticks()
        share = (now.stolen - mark.stolen) / max(1, now.total - mark.total)
        if share > STOLEN_SHARE:
            return f"the host gave {share:.0%} of the processors' time to others"
        gap_s = max(self._gaps_s, default=0.0)
        return f"nothing ran for {gap_s:.1f} s" if gap_s > GAP_S else ""

    def note_gap(self, seconds: float) -> None:
        """Note that a pause took ``seconds`` longer than PAUSE_S."""
        self._gaps_s.append(seconds)

    def _watch(self) -> None:
        never = threading.Event()  # tests replace time.sleep
        while True:
            began_s = time.monotonic()
            never.wait(PAUSE_S)
            gap_s = time.monotonic() - began_s - PAUSE_S
            if gap_s > GAP_S:
                self.note_gap(gap_s)

    def _ticks(self) -> Mark:
        line = self._stat().partition("\n")[0].split()[1:9]
        ticks = [int(word) for word in line]
        return Mark(ticks[7], sum(ticks)) if len(ticks) == 8 else Mark(0, 0)


class RepeatedTests:
    """The pytest plugin: it turns such a failure into a MachineStoodStillError, which pytest-rerunfailures repeats."""

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or Machine()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        return (yield from self._watched())

    def _watched(self) -> Generator[None, object, object]:
        mark = self._machine.mark()
        try:
            return (yield)
        except (Exception, pytest.fail.Exception) as error:
            lost = self._machine.lost_since(mark)
            if not lost:
                raise
            raise MachineStoodStillError(f"{lost} while the test ran, which failed with {type(error).__name__}: {error}") from error


def _read_stat() -> str:
    return STAT.read_text() if STAT.exists() else "cpu"
