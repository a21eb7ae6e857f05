# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step of the Makefile passes on what its command says and how it ends, and is never silent for long."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tools import run_step
from tools.paths import ENVIRONMENT, ROOT


def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["step", *arguments])
    code = run_step.main()
    return code, capfd.readouterr().out


def test_output_and_success(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, output = run(monkeypatch, capfd, "greet", "--", "sh", "-c", "echo out; echo err >&2")
    assert code == 0
    assert output.splitlines()[:3] == ["==> greet", "out", "err"]
    assert output.splitlines()[3].startswith("==> greet: ok in ")


def test_failure(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, output = run(monkeypatch, capfd, "broken", "--", "sh", "-c", "exit 3")
    assert code == 3
    assert "==> broken: FAILED (exit code 3)" in output


def test_the_command_may_have_the_last_word(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _, output = run(monkeypatch, capfd, "--quiet-end", "tests", "--", "echo", "3 passed")
    assert output.splitlines()[-1] == "3 passed"


def test_a_silent_command_is_shown_to_be_alive(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_step, "HEARTBEAT_S", 0.2)
    _, output = run(monkeypatch, capfd, "nap", "--", "sh", "-c", "printf .; sleep 0.7; printf .")
    assert ".\n    ... nap: still running (" in output


def test_held_output_comes_at_the_end_in_one_piece(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_step, "HEARTBEAT_S", 0.2)
    _, output = run(monkeypatch, capfd, "--hold", "talk", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done")
    lines = output.splitlines()
    said = lines.index("==> talk says")
    assert lines[1].startswith("    ... talk: still running (") and lines[said + 1 : said + 6] == list("12345")


def test_what_a_command_leaves_running_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_step, "HEARTBEAT_S", 0.1)
    started = time.monotonic()
    code, _ = run(monkeypatch, capfd, "starter", "--", "sh", "-c", "sleep 30 & exit 0")
    assert code == 0
    assert time.monotonic() - started < 20


def test_the_programs_of_the_environment_come_first(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    _, output = run(monkeypatch, capfd, "which", "--", "sh", "-c", "command -v python")
    assert str(ENVIRONMENT / "bin" / "python") in output


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    code, output = run(monkeypatch, capfd, "lost", "--", "no-such-program")
    assert code == 127
    assert "no-such-program" in output


def test_a_step_that_is_terminated_lets_its_command_clean_up_and_shows_what_it_has_held() -> None:
    command = ["sh", "-c", "trap 'echo cleaned up; exit 1' INT; echo begun; while :; do sleep 0.1; done"]
    step = [sys.executable, "-m", "tools.run_step", "--hold", "nap", "--", *command]
    with subprocess.Popen(step, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "==> nap\n"
        time.sleep(1)
        process.terminate()
        output = process.communicate(timeout=60)[0]
    assert output == "==> nap says\nbegun\n==> nap says\ncleaned up\n" and process.returncode == 130
