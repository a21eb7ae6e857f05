# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nothing is left of a program that starts processes in sessions of their own, however the test ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.processes import PROC, arguments
from tests.ended_together import ended_together
from tools.paths import ROOT

WITHIN_S = 20.0
IN_A_SESSION = 'setsid sh -c "sleep 60; : $0" & wait'
"""A program whose child no signal to its process group reaches. Both shells have ``$0`` in their command lines, and unshare has it."""
STARTER = """
import subprocess, sys
from tests.ended_together import ended_together
subprocess.Popen(ended_together(sys.argv[1:])).wait()
"""


def left(mark: str) -> set[int]:
    """Return the living processes whose command line has the mark."""
    running = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return {pid for pid in running if any(mark in argument for argument in arguments(pid))}


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + WITHIN_S
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return condition()


def test_a_process_in_another_session_ends_with_the_program() -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(ended_together(["sh", "-c", IN_A_SESSION, mark])) as program:
        begun = wait_for(lambda: len(left(mark)) == 3)
        program.kill()
    assert begun
    assert wait_for(lambda: not left(mark)), left(mark)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_program_ends_with_the_process_that_has_started_it(number: signal.Signals) -> None:
    mark = uuid.uuid4().hex
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command: list[str | Path] = [sys.executable, "-c", STARTER, "sh", "-c", IN_A_SESSION, mark]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as starter:
        begun = wait_for(lambda: len(left(mark)) == 4)
        starter.send_signal(number)
    assert begun
    assert wait_for(lambda: not left(mark)), left(mark)
