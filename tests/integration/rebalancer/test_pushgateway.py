# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a pass in Debian's Pushgateway."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.debian_program import debian_program
from tests.integration.rebalancer.conftest import Start
from tests.integration.rebalancer.program import samples
from tests.integration.workloads import deployment, pile_up, wait_until

LISTENING_WITHIN_S = 30


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of Debian."""
    return debian_program("prometheus-pushgateway", tmp_path_factory.mktemp("package"))


@pytest.fixture
def gateway(program: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a Pushgateway without metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (tmp_path / "gateway.log").open("wb") as log:
        process = subprocess.Popen([program, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(f"http://{address}"), timeout_s=LISTENING_WITHIN_S, what="an answer of the Pushgateway")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return bool(_get(f"{url}/-/ready"))
    except OSError:
        return False


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_each_pass_replaces_the_metrics_of_the_last_one(cluster: Cluster, namespace: str, rebalancers: Start, gateway: str) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    assert rebalancers(f"--pushgateway-url={gateway}").code() == 0
    first = samples(_get(f"{gateway}/metrics"))
    assert (first["healthy"], first["collapsed"], first["failed"]) == (1, 0, 0)
    nobody = cluster.service_account("nobody", cluster_role=None)
    assert rebalancers(f"--pushgateway-url={gateway}", kubeconfig=nobody).code() == 3
    second = samples(_get(f"{gateway}/metrics"))
    assert second["failed"] == 1 and "healthy" not in second
    assert second["last_run_timestamp_seconds"] > first["last_run_timestamp_seconds"]


def test_a_plan_pushes_nothing(rebalancers: Start, gateway: str) -> None:
    assert rebalancers(f"--pushgateway-url={gateway}", "--dry-run").code() == 0
    assert samples(_get(f"{gateway}/metrics")) == {}
