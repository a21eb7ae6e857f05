# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rebalancer as a separate process."""

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
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PACKAGE = "ansible_collections.onprem.kube_scheduling.services.rebalancer"
PREFIX = "kube_scheduling_rebalance_"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduling-rebalance"


class Rebalancer:
    """One running process. ``lines`` are the lines that it has logged."""

    def __init__(self, log: Path, *flags: str, **environment: str) -> None:
        self.log = log
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("REBALANCER_", "KUBECONFIG", "PYTHONPATH"))}
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", PACKAGE, *flags],
                stderr=stream,
                stdout=stream,
                env={**clean, "PYTHONPATH": str(COLLECTIONS), **environment},
            )

    @property
    def lines(self) -> list[Json]:
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def said(self, message: str, **fields: Any) -> list[Json]:
        """Its lines with this message and these fields."""
        return [line for line in self.lines if line["message"].startswith(message) and fields.items() <= line.items()]

    def decision(self, name: str) -> Json:
        """Its last decision about the workload."""
        found = [line for line in self.said("decision") if line["workload"].endswith(f"/{name}")]
        assert found, f"no decision about {name}: {self.log.read_text()}"
        return found[-1]

    def wait_for(self, message: str, **fields: Any) -> None:
        wait_until(lambda: self.said(message, **fields), what=lambda: f"the line {message}; {self.log.read_text()}")

    def code(self, timeout_s: float = 120) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(timeout_s)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.code(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

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


def samples(text: str) -> dict[str, float]:
    """Return the values of the rebalancer's metrics by name, and the numbers of workloads by verdict."""
    families = text_string_to_metric_families(text)
    own = (sample for family in families for sample in family.samples if sample.name.startswith(PREFIX))
    # A Pushgateway adds its own labels.
    found = (sample for sample in own if set(sample.labels) <= {"verdict", "job", "instance"})
    return {sample.labels.get("verdict", sample.name.removeprefix(PREFIX)): sample.value for sample in found}


def holder(cluster: Cluster) -> str:
    """Return the holder of the Lease; empty if it is free."""
    lease = cluster.api.find(LEASE)
    return "" if lease is None else lease["spec"].get("holderIdentity") or ""
