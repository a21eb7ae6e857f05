# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of the rebalancer that end with their test, for one namespace of the shared cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster, modules, namespace
from tests.integration.rebalancer.program import LEASE, Rebalancer, holder
from tests.integration.workloads import deployment

__all__ = ["cluster", "modules", "namespace", "rebalancers"]


class Start(Protocol):
    def __call__(self, *flags: str, kubeconfig: Path | None = None, **environment: str) -> Rebalancer: ...


@pytest.fixture
def rebalancers(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Start]:
    """Starts the rebalancer for the namespace of the test. It is a user to whom roles apply, unless a kubeconfig is given."""
    started: list[Rebalancer] = []
    numbers = itertools.count(1)
    if holder(cluster):  # a test before this one has killed the holder
        cluster.api.merge_patch(LEASE, {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}})

    def start(*flags: str, kubeconfig: Path | None = None, **environment: str) -> Rebalancer:
        user = kubeconfig or cluster.service_account("rebalancer")
        wanted = (f"--namespaces={namespace}", f"--kubeconfig={user}", "--listen-address=127.0.0.1:0", *flags)
        started.append(Rebalancer(tmp_path / f"{next(numbers)}.log", *wanted, **environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def slow(namespace: str, name: str, seconds: int, replicas: int = 2) -> dict[str, Any]:
    """A Deployment whose pods need some seconds to become ready, so that its rollout can be interrupted."""
    found = deployment(namespace, name, replicas)
    found["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": str(seconds)}
    return found
