# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Pushgateway: the fixtures `gateway_program` and `gateway`, which a test module imports by name."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.workloads import wait_until

PROGRAM = "prometheus-pushgateway"
LISTENING_WITHIN_S = 30


@pytest.fixture(scope="module")
def gateway_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, from PATH or from Debian's package. The package is not installed.

    Without both the test is skipped, or fails under KUBE_SCHEDULING_REQUIRE_ENGINE=1.
    """
    installed = shutil.which(PROGRAM)
    if installed is not None:
        return Path(installed)
    folder = tmp_path_factory.mktemp("package")
    required = os.environ.get("KUBE_SCHEDULING_REQUIRE_ENGINE") == "1"
    try:
        if not _download(folder) and required:
            subprocess.run(["apt-get", "-q", "update"], check=True, capture_output=True)
            _download(folder)
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        (pytest.fail if required else pytest.skip)(f"there is no {PROGRAM}, and apt-get cannot download it: {error}")
    return folder / "usr" / "bin" / PROGRAM


def _download(folder: Path) -> bool:
    return subprocess.run(["apt-get", "-q", "download", PROGRAM], cwd=folder, capture_output=True).returncode == 0


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
