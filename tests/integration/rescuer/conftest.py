# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas of the rescuer that end with their test, on a cluster whose scheduler does not preempt."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from lab.cluster import Cluster
from tests.integration.rescue.conftest import cluster, rescues, scene
from tests.integration.rescuer.daemons import Daemon

__all__ = ["cluster", "daemons", "rescues", "scene"]


class Start(Protocol):
    def __call__(self, *flags: str, kubeconfig: Path | None = None) -> Daemon: ...


@pytest.fixture
def daemons(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Starts a replica, as a user to whom roles apply unless a kubeconfig is given, and waits until it is ready."""
    started: list[Daemon] = []
    numbers = itertools.count(1)

    def start(*flags: str, kubeconfig: Path | None = None) -> Daemon:
        user = kubeconfig or cluster.service_account("rescuer")
        daemon = Daemon(cluster, tmp_path / f"{next(numbers)}.log", *flags, kubeconfig=user)
        started.append(daemon)
        daemon.wait_ready()
        return daemon

    yield start
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.process.terminate()
    for daemon in started:
        try:
            daemon.process.wait(30)
        finally:
            daemon.kill()
