# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Alertmanager, with alerts that a test posts as Prometheus does."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from lab import ports
from tests.ended_together import ended_together
from tests.integration.workloads import wait_until

LISTENING_WITHIN_S = 60


class Alertmanager:
    """A running Alertmanager."""

    def __init__(self, url: str) -> None:
        self._url = url

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def post(self, alert: str, *, resolved: bool = False, **labels: str) -> None:
        """Post an alert that fires, or that does not fire any more."""
        now = datetime.now(UTC)
        ends = now - timedelta(seconds=1) if resolved else now + timedelta(hours=1)
        body = [
            {"labels": {"alertname": alert, **labels}, "startsAt": (now - timedelta(minutes=1)).isoformat(), "endsAt": ends.isoformat()}
        ]
        request = urllib.request.Request(f"{self._url}/api/v2/alerts", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20):
            pass


def _command(program: Path, folder: Path) -> list[str]:
    """Return the command of the program. One that was only unpacked finds its templates by a path that the build of Debian has fixed."""
    if folder not in program.parents:
        return [str(program)]
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f'mount --bind {folder / "usr" / "share"} /usr/share && exec "$@"'
    return ["unshare", *as_root, "--mount", "--propagation=private", "sh", "-c", mount, "sh", str(program)]


@contextmanager
def alertmanager(program: Path, folder: Path, receiver: dict[str, object]) -> Iterator[Alertmanager]:
    """Run an Alertmanager that sends each change of its alerts to this webhook within a second."""
    (port,) = ports.reserve(folder, 1)
    route = {"receiver": "rulebook", "group_by": ["alertname"], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}
    configuration = folder / "alertmanager.yml"
    configuration.write_text(yaml.safe_dump({"route": route, "receivers": [{"name": "rulebook", "webhook_configs": [receiver]}]}))
    command = [
        *_command(program, folder),
        f"--config.file={configuration}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(ended_together([*command, "--cluster.listen-address="]), stdout=log, stderr=log)
    try:
        running = Alertmanager(f"http://127.0.0.1:{port}")
        wait_until(lambda: running.is_ready() or process.poll() is not None, timeout_s=LISTENING_WITHIN_S, what="an answer of Alertmanager")
        assert process.poll() is None, (folder / "alertmanager.log").read_text()
        yield running
    finally:
        process.kill()
        process.wait()
