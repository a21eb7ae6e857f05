# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the program of simulated node_exporters (`lab.node_exporter`), and set the traffic of its nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lab.errors import LabError
from lab.layout import REPOSITORY
from lab.node_exporter import DeviceSettings, NodeSettings
from lab.prometheus_config import Target

TIMEOUT_S = 10.0


class Exporters:
    """The simulated node_exporters of one process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set(self, node: str, settings: NodeSettings) -> None:
        """Set the load of a node, which gets a node_exporter if it has none."""
        self._request("PUT", node, json.dumps(asdict(settings)).encode())

    def set_traffic(
        self, node: str, *, device: str = "eth0", receive: float = 0.0, transmit: float = 0.0, speed: float | None = None
    ) -> None:
        """Set the traffic of a node with one network device, in bytes per second."""
        self.set(node, NodeSettings(devices={device: DeviceSettings(receive, transmit, speed)}))

    def remove(self, node: str) -> None:
        """End the node_exporter of a node."""
        self._request("DELETE", node, None)

    def targets(self, instances: Mapping[str, str]) -> list[Target]:
        """Return Prometheus' targets for nodes; ``instances`` has the label `instance` of each node."""
        address = self.url.removeprefix("http://")
        return [Target(address, path=f"/nodes/{node}/metrics", labels={"instance": instance}) for node, instance in instances.items()]

    def _request(self, method: str, node: str, body: bytes | None) -> None:
        request = urllib.request.Request(f"{self.url}/nodes/{node}", data=body, method=method)
        try:
            urllib.request.urlopen(request, timeout=TIMEOUT_S).close()
        except OSError as error:
            raise LabError(f"{method} {request.full_url}: {error}; does lab.node_exporter run?") from error


@contextmanager
def exporters(log: Path) -> Iterator[Exporters]:
    """Run the program on a free port; its errors go to the file."""
    command = [sys.executable, "-m", "lab.node_exporter"]
    pipe = subprocess.PIPE
    with log.open("wb") as errors, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, cwd=REPOSITORY) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().decode().strip()
            if not url:
                raise LabError(f"lab.node_exporter ended: {log.read_text(errors='replace')[-500:]}")
            yield Exporters(url)
        finally:
            process.kill()
