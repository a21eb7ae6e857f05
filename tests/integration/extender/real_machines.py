# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines with a network of their own, and a real node_exporter on each."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab import binaries
from lab.network_namespaces import NetworkNamespace, missing_privilege, network_namespaces
from tests.integration.extender.traffic import NODE_EXPORTER_PORT
from tests.not_run import not_run

COLLECTORS = ("netdev", "netclass", "uname")


@contextlib.contextmanager
def real_machines(count: int) -> Iterator[list[NetworkNamespace]]:
    """Make machines. Without root the test is skipped, or fails under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""
    if reason := missing_privilege():
        not_run(reason)
    with network_namespaces(count) as made:
        yield made


@contextlib.contextmanager
def node_exporter(machine: NetworkNamespace, folder: Path) -> Iterator[None]:
    """Run a real node_exporter on a machine."""
    flags = [f"--web.listen-address={machine.address}:{NODE_EXPORTER_PORT}", "--collector.disable-defaults"]
    flags += [f"--collector.{name}" for name in COLLECTORS]
    with (folder / f"{machine.name}.log").open("wb") as log:
        process = subprocess.Popen(machine.command(str(binaries.node_exporter()), *flags), stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.kill()
            process.wait()
