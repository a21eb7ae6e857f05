# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lab.cluster import Cluster
from lab.processes import cpu_s
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PACKAGE = "ansible_collections.onprem.kube_scheduling.services.rescuer"
AGENT = "onprem.kube_scheduling/rescuer"
PREFIX = "kube_scheduling_rescue_"


def start(log: Path, *flags: str, **environment: str) -> subprocess.Popen[bytes]:
    """The rescuer with just these settings; what it writes goes to the file."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("RESCUER_", "KUBECONFIG", "PYTHONPATH"))}
    with log.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", PACKAGE, *flags], stderr=stream, env={**clean, "PYTHONPATH": str(COLLECTIONS), **environment}
        )


class Daemon:
    """One running replica. ``lines`` are what it has logged."""

    def __init__(self, cluster: Cluster, log: Path, *flags: str, kubeconfig: Path | None = None) -> None:
        self.log = log
        wanted = ("--settle-time=0", "--listen-address=127.0.0.1:0", f"--kubeconfig={kubeconfig or cluster.kubeconfig}", *flags)
        self.process = start(log, *wanted)
        wait_until(lambda: self.lines or self.process.poll() is not None, what="the first line")

    @property
    def lines(self) -> list[Json]:
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def said(self, message: str, **fields: Any) -> list[Json]:
        """Its lines with this message and these fields."""
        return [line for line in self.lines if line["message"].startswith(message) and fields.items() <= line.items()]

    def ask(self, path: str) -> tuple[int, str]:
        """Return the response of an endpoint."""
        host, _, port = self.said("serving metrics and health")[0]["address"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    @property
    def ready(self) -> bool:
        try:
            return self.ask("/readyz")[0] == 200
        except ConnectionError:  # as a probe would take it
            return False

    def wait_ready(self, timeout_s: float = 120) -> None:
        wait_until(lambda: self.ready, timeout_s=timeout_s, what=lambda: f"readiness; {self.log.read_text()}")

    def metric(self, name: str, **labels: str) -> float:
        """The value of a sample; the sum over labels that are not given."""
        families = text_string_to_metric_families(self.ask("/metrics")[1])
        samples = [sample for family in families for sample in family.samples if sample.name == PREFIX + name]
        assert samples, f"no sample {name}"
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    @property
    def leads(self) -> bool:
        return self.metric("leader") == 1

    def kill(self) -> None:
        """Without any chance to clean up."""
        self.process.kill()
        self.process.wait()

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def resident_mb(self) -> float:
        """Resident memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """CPU seconds of user and system so far."""
        return cpu_s(self.process.pid)

    def threads(self) -> int:
        """The threads of the process."""
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def open_files(self) -> int:
        """Its file descriptors, among them its connections."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def port(self) -> int:
        """Return the port of its endpoints."""
        return int(self.said("serving metrics and health")[0]["address"].rpartition(":")[2])
