# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only a cluster's own processes are ever found or ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes import cpu_s, kill_all, own_pids, pid_in, started_at


@pytest.fixture
def kwok(tmp_path: Path) -> Path:
    """Folder of a cluster that has one program, sleep."""
    for name in ("bin", "pids"):
        (tmp_path / name).mkdir()
    sleep = shutil.which("sleep")
    assert sleep
    (tmp_path / "bin" / "sleep").symlink_to(sleep)
    return tmp_path


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_process_started_from_the_bin_folder_is_found_without_a_pid_file(kwok: Path) -> None:
    process = subprocess.Popen([kwok / "bin" / "sleep", "60"])
    deadline_s = time.monotonic() + 5
    while not own_pids(kwok) and time.monotonic() < deadline_s:
        time.sleep(0.01)  # for a moment within exec a process has no command line
    assert own_pids(kwok) == {process.pid}
    assert kill_all(kwok) == 1
    assert process.wait() == -9
    assert own_pids(kwok) == set()


def test_process_behind_a_wrapper_is_found_by_pid_file_and_arguments(kwok: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", f"--data-dir={kwok}/etcd"])
    assert own_pids(kwok) == set()
    (kwok / "pids" / "etcd.pid").write_text(str(process.pid))
    assert own_pids(kwok) == {process.pid}
    kill_all(kwok)
    process.wait()


def test_pid_file_that_names_a_stranger_is_stale(kwok: Path, stranger: subprocess.Popen[bytes]) -> None:
    pid_file = kwok / "pids" / "etcd.pid"
    pid_file.write_text(str(stranger.pid))
    assert pid_in(pid_file, kwok) is None
    assert kill_all(kwok) == 0
    assert stranger.poll() is None


@pytest.mark.parametrize("text", ["", "no number", "999999999"])
def test_bad_pid_file_is_stale(kwok: Path, text: str) -> None:
    (kwok / "pids" / "etcd.pid").write_text(text)
    assert pid_in(kwok / "pids" / "etcd.pid", kwok) is None


def test_start_time_identifies_a_process_permanently() -> None:
    assert started_at(os.getpid()).isdigit()
    assert started_at(999999999) == ""


def test_cpu_time_of_a_process_grows_while_it_computes_and_is_0_after_its_end() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        while cpu_s(process.pid) < 0.05:
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
    assert cpu_s(process.pid) == 0
