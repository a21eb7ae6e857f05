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

from lab.kind import packages
from lab.processes import PROC, arguments
from tests.ended_together import ended_together, namespace_obstacle
from tools.paths import ROOT

WITHIN_S = 20.0
IN_A_SESSION = 'setsid sh -c "sleep 60; : $0" & wait'
"""A program whose child no signal to its process group reaches. Both shells have ``$0`` in their command lines, and unshare has it."""
STARTER = """
import signal, subprocess, sys
from tests.ended_together import ended_together, namespace_obstacle
# A job in the background inherits SIGINT as ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
subprocess.Popen(ended_together(sys.argv[1:])).wait()
"""


def left(mark: str) -> set[int]:
    """Return the living processes whose command line has the mark."""
    running = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return {pid for pid in running if any(mark in argument for argument in arguments(pid))}


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline_s:
        # A second call could read a process that executes another program, and that has no command line then.
        if condition():
            return True
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
    # The test is refused here, and not in the other process.
    ended_together([])
    command: list[str | Path] = [sys.executable, "-c", STARTER, "sh", "-c", IN_A_SESSION, mark]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as starter:
        begun = wait_for(lambda: len(left(mark)) == 4)
        starter.send_signal(number)
    assert begun
    assert wait_for(lambda: not left(mark)), left(mark)


@pytest.mark.parametrize(("required", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_test_is_not_run_where_an_ordinary_user_cannot_make_a_namespace(
    required: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refusal = "unshare: write failed /proc/self/uid_map: Operation not permitted"
    (tmp_path / "unshare").write_text(f"#!/bin/sh\necho '{refusal}' >&2\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv(packages.PERMISSION, required)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(outcome, match=f"not run: this user cannot make a user namespace: {refusal}"):
        ended_together(["true"])


def test_root_and_a_user_who_can_make_a_namespace_have_no_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert namespace_obstacle() == ""
