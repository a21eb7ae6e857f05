# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from lab import ports
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.workloads import wait_until

Json = dict[str, Any]

PACKAGE = "ansible_collections.onprem.kube_scheduling.services.extender"
PREFIX = "kube_scheduling_extender_"
# Variables that would change the settings of the test.
FOREIGN = ("EXTENDER_", "KUBECONFIG", "PYTHONPATH", "HTTP_", "LOG_LEVEL", "SAFE", "CONGESTION_", "NUM_RESOURCES", "POLICY_")
TIMEOUT_S = 10.0

WRONG_CLOCK = """
import time

right, right_ns = time.time, time.time_ns
time.time = lambda: right() + {ahead_s}
time.time_ns = lambda: right_ns() + int({ahead_s} * 10**9)
"""
"""Python imports sitecustomize before the program, so that all of its modules have this clock."""


class Extender:
    """One extender. ``settings`` are those of FILE without the addresses; ``lines`` are what it has logged.

    ``clock_ahead_s``: the seconds by which its wall clock is ahead of all other programs, or behind.
    """

    def __init__(self, folder: Path, settings: Json, *, clock_ahead_s: float = 0.0) -> None:
        self.file = folder / "extender.yaml"
        self.log = folder / "extender.log"
        self._ports = ports.reserve(folder, 2)
        self._tls = "tls" in settings.get("server", {})
        self._packages = [str(COLLECTIONS)]
        if clock_ahead_s:
            (folder / "sitecustomize.py").write_text(WRONG_CLOCK.format(ahead_s=clock_ahead_s))
            self._packages.insert(0, str(folder))
        self.process: subprocess.Popen[bytes] | None = None
        self.configure(settings)

    @property
    def url(self) -> str:
        """Return the URL for the scheduler."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._ports[0]}"

    @property
    def port(self) -> int:
        """Return the port for the scheduler."""
        return self._ports[0]

    @property
    def status_address(self) -> str:
        """Return the address for people, probes and Prometheus."""
        return f"127.0.0.1:{self._ports[1]}"

    def configure(self, settings: Json) -> None:
        """Replace FILE."""
        listen, status = (f"127.0.0.1:{port}" for port in self._ports)
        self.write(yaml.safe_dump({"listen": listen, "status_address": status, **settings}))

    def write(self, text: str) -> None:
        """Replace the text of FILE in one step, as a mounted ConfigMap does."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        with self.log.open("ab") as stream:
            command = [sys.executable, "-m", PACKAGE, "--config", str(self.file)]
            self.process = subprocess.Popen(command, stderr=stream, env={**clean, "PYTHONPATH": os.pathsep.join(self._packages)})
        wait_until(lambda: self.is_ready() or not self.is_running(), what="a ready extender")
        assert self.is_running(), self.log.read_text()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == http.client.OK
        except OSError:  # as a probe would take it
            return False

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End the process without a chance to clean up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        assert self.process is not None
        self.send(signal.SIGTERM)
        return self.process.wait(30)

    # --- what it answers ---

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of an answer on the address for people."""
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[1], timeout=TIMEOUT_S)
        return _answer(connection, "GET", path, None)

    def explain(self, namespace: str, name: str) -> Json:
        """Return the explanation of a pod's scores."""
        status, text = self.get(f"/explain?pod={namespace}/{name}&format=json")
        assert status == http.client.OK, text
        found: Json = json.loads(text)
        return found

    def status(self) -> Json:
        """Return the values of the status page."""
        found: Json = json.loads(self.get("/status?format=json")[1])
        return found

    def post(self, verb: str, body: Any, *, context: ssl.SSLContext | None = None) -> tuple[int, Any]:
        """Return the status and the decoded answer of a request as the scheduler sends it."""
        connection = self.connection(context)
        status, text = _answer(connection, "POST", f"/scheduler/{verb}", json.dumps(body).encode())
        return status, json.loads(text)

    def connection(self, context: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
        """Return a connection to the address for the scheduler. ``context`` has the certificates of a client."""
        if not self._tls:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=TIMEOUT_S, context=context)

    def scores(self, nodes: Iterable[str], scheduler_name: str, **annotations: str) -> dict[str, int]:
        """Return the scores of the nodes for a new pod."""
        status, answer = self.post("prioritize", {"Pod": pod_of(scheduler_name, **annotations), "NodeNames": list(nodes)})
        assert status == http.client.OK, answer
        return {entry["Host"]: entry["Score"] for entry in answer}

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples with these labels; 0 if there is none."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = (sample for family in families for sample in family.samples if sample.name == PREFIX + name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    @property
    def lines(self) -> list[Json]:
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]


def pod_of(scheduler_name: str, uid: str = "", **annotations: str) -> Json:
    """Return a pod as the scheduler sends it."""
    metadata = {"name": "asked", "namespace": "default", "uid": uid or f"uid-{time.monotonic_ns()}", "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler_name, "containers": [{"name": "main"}]}}


def _answer(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None) -> tuple[int, str]:
    try:
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
