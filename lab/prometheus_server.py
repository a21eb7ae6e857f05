# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Prometheus. That of a cluster has fixed targets, and ends with the cluster at the latest."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab import binaries
from lab.cluster import Cluster
from lab.errors import LabError
from lab.progress import silent
from lab.prometheus_config import Target, configuration
from lab.readiness import is_healthy

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
REQUEST_TIMEOUT_S = 5.0
POLL_S = 0.05
LISTENING = re.compile(r'msg="Listening on".* address=127\.0\.0\.1:(\d+)')


class PrometheusServer:
    """One Prometheus with its data in ``folder``. It keeps its port when it is started again."""

    def __init__(self, program: Path, folder: Path, settings: dict[str, Any]) -> None:
        self._program = program
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = folder / "prometheus.log"
        self._config = folder / "prometheus.yml"
        self._config.write_text(yaml.safe_dump(settings))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the process, and wait until it is ready. Raises LabError with its last lines."""
        self.log_file.unlink(missing_ok=True)
        command = [str(self._program), f"--config.file={self._config}", f"--storage.tsdb.path={self._folder / 'data'}"]
        command += [f"--web.listen-address=127.0.0.1:{self._port}", "--log.format=logfmt", "--log.level=info"]
        # Otherwise the first scrape is 5 s after the start.
        command += ["--scrape.discovery-reload-interval=100ms"]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                last = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-4:])
                self.kill()
                raise LabError(f"prometheus did not start: {last}")
            time.sleep(POLL_S)

    def kill(self) -> None:
        """End the process without a chance to clean up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Stop the process with SIGSTOP: it accepts connections, but answers no request."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return the vector of an instant query."""
        url = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': promql})}"
        with urllib.request.urlopen(url, timeout=REQUEST_TIMEOUT_S) as response:
            answer = json.load(response)
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None, "start it first"
        self._process.send_signal(number)

    def _is_ready(self) -> bool:
        """Return whether it answers. The log has the port that the kernel has chosen."""
        found = LISTENING.search(self.log_file.read_text(errors="replace"))
        if found is None:
            return False
        self._port = int(found[1])
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_TIMEOUT_S)
        return is_healthy(connection, "/-/ready")


@contextmanager
def prometheus_server(
    cluster: Cluster,
    folder: Path,
    targets: Sequence[Target],
    *,
    scrape_interval: str = "1s",
    rule_files: Sequence[Path] = (),
    scrape_config_files: Sequence[Path] = (),
) -> Iterator[PrometheusServer]:
    """Run a Prometheus on a free port; it is built if needed. ``folder`` gets its configuration, its data and its log."""
    # A process that is started from the folder of the cluster's programs is ended with the cluster.
    program = cluster.layout.bin / "prometheus"
    if not program.exists():
        program.symlink_to(binaries.prometheus())
    settings = configuration(targets, scrape_interval=scrape_interval, rule_files=rule_files, scrape_config_files=scrape_config_files)
    with _running(PrometheusServer(program, folder, settings)) as server:
        yield server


def query_with(config: Path, promql: str, *, timeout_s: float) -> list[dict[str, Any]]:
    """Run a Prometheus with this configuration until the query has a result, and return that. Paths in the file must be absolute.

    The result is empty if there is none in time. Prometheus is built if needed.
    """
    program = binaries.prometheus(silent)
    with (
        tempfile.TemporaryDirectory() as folder,
        _running(PrometheusServer(program, Path(folder), yaml.safe_load(config.read_text()))) as server,
    ):
        deadline_s = time.monotonic() + timeout_s
        while not (result := server.query(promql)) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        return result


@contextmanager
def _running(server: PrometheusServer) -> Iterator[PrometheusServer]:
    try:
        server.start()
        yield server
    finally:
        server.kill()
