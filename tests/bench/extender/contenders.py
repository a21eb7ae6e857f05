# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extenders that are compared. Each is started for its turn, so that the others use no CPU time meanwhile."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import ports
from lab.processes import cpu_s
from tests.bench.extender.cluster_fixture import Fixture
from tests.bench.extender.settings import Json, settings
from tests.integration.extender.extender_process import Extender
from tests.integration.workloads import wait_until

REFRESH_S = 15
"""The default of ``refresh_s``."""
OFTEN_S = 1
"""The least value of ``refresh_s``."""

MOST_UNKNOWN = 50
"""Nodes without values, in sum over all agents. The nodes of the lab's control plane have none."""


@dataclass(frozen=True)
class Running:
    """An extender that answers: its address, and its process."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        """Return the CPU seconds of user and system so far."""
        return cpu_s(self.pid)

    def memory_mb(self, key: str = "VmRSS") -> float:
        """Return the resident memory; with the key VmHWM its peak."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        # Linux gives kilobytes.
        return next(int(line.split()[1]) for line in lines if line.startswith(key + ":")) / 1024


@contextmanager
def go_extender(program: Path, folder: Path, *options: str) -> Iterator[Running]:
    """Run the Go extender."""
    folder.mkdir(exist_ok=True)
    address = f"127.0.0.1:{ports.reserve(folder, 1)[0]}"
    with (folder / "log").open("wb") as log, subprocess.Popen([program, "-listen", address, *options], stderr=log) as process:
        wait_until(lambda: _accepts(address), timeout_s=10, what="the Go extender")
        yield Running(address, process.pid)
        process.terminate()


@contextmanager
def own_extender(folder: Path, agents: list[Json], fixture: Fixture, *, refresh_s: float) -> Iterator[Running]:
    """Run the extender of this project. It has read its sources when it is ready."""
    folder.mkdir(exist_ok=True)
    extender = Extender(folder, settings(agents, fixture.prometheus, fixture.kubeconfig, refresh_s=refresh_s))
    extender.start()
    try:
        if extender.metric("unknown_nodes") > MOST_UNKNOWN or not extender.metric("nodes"):
            raise SystemExit(f"some nodes have no values: {extender.log.read_text()[-3000:]}")
        assert extender.process is not None
        yield Running(f"127.0.0.1:{extender.port}", extender.process.pid)
        if extender.metric("agent_errors_total"):
            raise SystemExit(f"an agent has failed: {extender.log.read_text()[-3000:]}")
    finally:
        extender.kill()


def _accepts(address: str) -> bool:
    host, _colon, port = address.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False
