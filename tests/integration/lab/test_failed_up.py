# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An `up` that fails or is interrupted leaves no process, and says what to do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import binaries, ports
from lab.cluster import up
from lab.errors import LabError
from lab.layout import REPOSITORY, Layout
from lab.processes import own_pids
from tests.integration.lab.conftest import wait_for

DIES_ON_START = """#!/bin/sh
case "$1" in
  --version) echo "Kubernetes v1.36.3";;
  *) echo "broken on purpose" >&2; exit 3;;
esac
"""


@pytest.fixture
def broken_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAB_BIN_DIR with all programs, of which kube-scheduler ends immediately."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in binaries.PROGRAMS:
        (folder / program.name).symlink_to(binaries.ensure() / program.name)
    scheduler = folder / "kube-scheduler"
    scheduler.unlink()
    scheduler.write_text(DIES_ON_START)
    scheduler.chmod(0o755)
    monkeypatch.setenv("LAB_BIN_DIR", str(folder))


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.usefixtures("broken_scheduler")
def test_broken_program(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(LabError, match=r"kube-scheduler ended:(?s:.*)broken on purpose(?s:.*)logs"):
        up(tmp_path / "lab", "broken", log=lines.append)
    assert not own_pids(Layout.of(tmp_path / "lab", "broken").kwok)
    assert any("start given up" in line and str(tmp_path) in line for line in lines)
    assert (tmp_path / "lab" / "logs" / "kube-scheduler.log").exists()


def test_port_taken_by_another_program(tmp_path: Path, busy_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port was free when it was chosen, and is not any more when the API server starts."""
    free = ports.reserve

    def reserve(folder: Path, count: int) -> list[int]:
        chosen = free(folder, count)
        return [*chosen[:2], busy_port, *chosen[3:]]

    monkeypatch.setattr(ports, "reserve", reserve)
    with pytest.raises(LabError, match=r"address already in use(?s:.*)run up again"):
        up(tmp_path / "lab", "busy")
    assert not own_pids(Layout.of(tmp_path / "lab", "busy").kwok)


def test_no_free_ports(tmp_path: Path, busy_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_PORTS", f"{busy_port}-{busy_port}")
    with pytest.raises(LabError, match=f"6 free TCP ports are needed in {busy_port}-{busy_port}, found 0. Set LAB_PORTS"):
        up(tmp_path / "lab", "crowded")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_up(tmp_path: Path, number: signal.Signals) -> None:
    layout = Layout.of(tmp_path / "clusters" / "cut", "cut")
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "up", "--name", "cut"],
        cwd=REPOSITORY,
        env=os.environ | {"LAB_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: own_pids(layout.kwok))
    process.send_signal(number)
    said, _ = process.communicate(timeout=15)
    assert process.returncode == 130, said
    assert "start given up" in said
    assert "lab: interrupted" in said
    assert not own_pids(layout.kwok)
