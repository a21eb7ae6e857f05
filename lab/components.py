# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of one cluster: their command lines as kwokctl wrote them, start, signal and health.

Nothing here knows what a cluster is for; `control_plane` puts them together.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lab.errors import LabError
from lab.layout import Layout
from lab.processes import has_ended, pid_in, send_signal
from lab.readiness import is_healthy

HEALTH_PATHS = {"etcd": "/health", "kube-apiserver": "/readyz", "prometheus": "/-/ready"}
HEALTH_TIMEOUT_S = 2.0


class ComponentStatus(NamedTuple):
    component: str
    pid: int | None
    alive: bool


@dataclass(frozen=True)
class Component:
    """One process of the control plane."""

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    health_scheme: str
    health_address: str
    layout: Layout

    @property
    def pid_file(self) -> Path:
        return self.layout.pids / f"{self.name}.pid"

    @property
    def log_file(self) -> Path:
        return self.layout.component_logs / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Process id if the component lives; the pid file alone does not count."""
        return pid_in(self.pid_file, self.layout.kwok)

    @property
    def has_ended(self) -> bool:
        """The process was started and has ended. A pid file that is still empty is being written by kwokctl."""
        with contextlib.suppress(FileNotFoundError):
            return bool(self.pid_file.read_text()) and self.pid is None
        return False

    def status(self) -> ComponentStatus:
        return ComponentStatus(self.name, self.pid, self.pid is not None)

    def start(self) -> None:
        """Start the process with the command line it had, unless it lives."""
        if self.pid is not None:
            return
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.layout.kwok,
                env=clean_environment(self.layout) | dict(self.environment),
                start_new_session=True,
            )
        self.pid_file.write_text(str(process.pid))

    def send(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            raise LabError(f"{self.name} of cluster {self.layout.name} is not running: start it first")
        send_signal(pid, number)

    def end(self, number: signal.Signals, *, timeout_s: float = 75.0) -> None:
        """Signal the process and wait until it has ended; on SIGTERM an API server first drains its watches."""
        pid = self.pid
        self.send(number)
        deadline = time.monotonic() + timeout_s
        while pid is not None and not has_ended(pid):
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} (process {pid}) lives {timeout_s:.0f} s after {number.name}: use SIGKILL")
            time.sleep(0.02)

    def healthy(self) -> bool:
        """Return whether the process runs and its health endpoint returns 200."""
        if self.pid is None:
            return False
        return is_healthy(self._connection(), HEALTH_PATHS.get(self.name, "/healthz"))

    def wait_healthy(self, *, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.healthy():
            if self.pid is None:
                raise LabError(f"{self.name} of cluster {self.layout.name} ended: {self.last_words()}")
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} is not healthy after {timeout_s:.0f} s: see {self.log_file}")
            time.sleep(0.05)

    def last_words(self) -> str:
        """Return the last lines of its log, for error messages."""
        with contextlib.suppress(FileNotFoundError):
            lines = self.log_file.read_text(errors="replace").strip().splitlines()
            return "\n  ".join(["", *(line[:400] for line in lines[-4:])])
        return "(no log)"

    def _connection(self) -> http.client.HTTPConnection:
        if self.health_scheme == "http":
            return http.client.HTTPConnection(self.health_address, timeout=HEALTH_TIMEOUT_S)
        # The scheduler and the controller manager sign their own certificates; it is our process on our loopback.
        trusting = ssl.create_default_context()
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        trusting.load_cert_chain(self.layout.pki / "admin.crt", self.layout.pki / "admin.key")
        return http.client.HTTPSConnection(self.health_address, timeout=HEALTH_TIMEOUT_S, context=trusting)


def clean_environment(layout: Layout) -> dict[str, str]:
    """Environment for kwokctl and the components: no setting of another kwok installation shall leak in."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("KWOK_")}
    return kept | {"KWOK_WORKDIR": str(layout.kwok_workdir)}


def components(layout: Layout) -> list[Component]:
    """The cluster's components in starting order; empty before kwokctl has written its file."""
    try:
        documents = list(yaml.load_all(layout.kwok_answer.read_text(), Loader=_loader()))
    except (FileNotFoundError, yaml.YAMLError):
        return []
    entries: list[dict[str, Any]] = next((d.get("components", []) for d in documents if d and d["kind"] == "KwokctlConfiguration"), [])
    return [
        Component(
            name=entry["name"],
            command=(entry["binary"], *entry.get("args", [])),
            environment=tuple((item["name"], item["value"]) for item in entry.get("envs", [])),
            health_scheme=entry["metric"]["scheme"],
            health_address=entry["metric"]["host"],
            layout=layout,
        )
        for entry in entries
    ]


def _loader() -> type[yaml.SafeLoader]:
    # The C loader reads the file in 10 ms instead of 150 ms.
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
