# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Pushgateway: the fixtures `gateway_program` and `gateway`, which a test module imports by name."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian_program import debian_program
from tests.integration.workloads import wait_until

LISTENING_WITHIN_S = 30


@pytest.fixture(scope="module")
def gateway_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of Debian."""
    return debian_program("prometheus-pushgateway", tmp_path_factory.mktemp("package"))


@pytest.fixture
def gateway(gateway_program: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a Pushgateway without metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (tmp_path / "gateway.log").open("wb") as log:
        process = subprocess.Popen([gateway_program, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(f"http://{address}"), timeout_s=LISTENING_WITHIN_S, what="an answer of the Pushgateway")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return bool(get(f"{url}/-/ready"))
    except OSError:
        return False


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def push(gateway: str, job: str, text: str) -> None:
    """Add metrics to the group of a job."""
    with urllib.request.urlopen(f"{gateway}/metrics/job/{job}", data=text.encode(), timeout=10):
        pass
