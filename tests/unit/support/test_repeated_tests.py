# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Only a test that fails while the machine does not run is repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.machine import Machine
from tools.paths import ROOT

TEST = """
import pathlib

def test_that_fails_once(tmp_path_factory):
    seen = pathlib.Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.write_text("")
    assert not first, "the first time"
"""
CONFTEST = """
from tests.integration.machine import Machine, RepeatedTests

class Known(Machine):
    def lost_since(self, mark):
        return {lost!r}

def pytest_configure(config):
    config.pluginmanager.register(RepeatedTests(Known()))
"""


@pytest.mark.parametrize("lost", ["nothing ran for 12.0 s", ""])
def test_failure_is_repeated_only_if_the_machine_did_not_run(tmp_path: Path, lost: str) -> None:
    (tmp_path / "test_once.py").write_text(TEST)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(lost=lost))
    options = ["-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, "--reruns", "2", "--only-rerun", "MachineStoodStillError", "-rR", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT), "PATH": ""})
    assert ("1 passed, 1 rerun" in done.stdout) is bool(lost), done.stdout
    assert done.returncode == (0 if lost else 1), done.stdout


def test_stolen_time_and_gaps_are_seen() -> None:
    ticks = iter([(0, 1000), (10, 1100), (10, 1100), (60, 1200), (60, 1200), (60, 1300)])

    def stat() -> str:
        stolen, total = next(ticks)
        return f"cpu  {total - stolen} 0 0 0 0 0 0 {stolen} 0 0\ncpu0 1\n"

    machine = Machine(stat)
    assert machine.lost_since(machine.mark()) == ""
    assert machine.lost_since(machine.mark()) == "the host gave 50% of the processors' time to others"
    mark = machine.mark()
    machine.note_gap(12.0)
    assert machine.lost_since(mark) == "nothing ran for 12.0 s"


def test_machine_without_such_a_file_has_no_stolen_time() -> None:
    machine = Machine(lambda: "cpu")
    assert machine.lost_since(machine.mark()) == ""
