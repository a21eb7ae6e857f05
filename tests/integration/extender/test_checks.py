# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--check-sources`` against a real Prometheus and API server, and the form of the extender's own metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab import binaries
from tests.integration.extender.conftest import StartExtender
from tests.integration.extender.extender_process import FOREIGN, PACKAGE
from tests.integration.extender.traffic import PROFILE, Traffic, settings
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.workloads import wait_until


@pytest.fixture
def file(traffic: Traffic, extender_kubeconfig: Path, tmp_path: Path) -> Path:
    """FILE of an extender that scores by network traffic."""
    path = tmp_path / "extender.yaml"
    path.write_text(yaml.safe_dump(settings(traffic, str(extender_kubeconfig))))
    return path


def check(flag: str, file: Path) -> subprocess.CompletedProcess[str]:
    """Run the extender with a flag that lets it end after a check."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    command = [sys.executable, "-m", PACKAGE, "--config", str(file), flag]
    return subprocess.run(command, env={**clean, "PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=False, timeout=60)


def test_each_node_is_printed_with_its_value(traffic: Traffic, file: Path) -> None:
    busy = traffic.workers[2]
    traffic.set_quiet(*(name for name in traffic.workers if name != busy))
    wait_until(lambda: (traffic.rate(busy) or 0) > 1e8 and traffic.rate(traffic.workers[0]) == 0, what="the traffic")
    found = check("--check-sources", file)
    assert found.returncode == 0, found.stdout + found.stderr
    for name in traffic.workers:
        assert f"node {name}\n" in found.stdout and traffic.instances[name] in found.stdout, found.stdout


def test_a_node_without_exporter_is_named(traffic: Traffic, file: Path) -> None:
    missing = traffic.workers[1]
    traffic.remove(missing)
    try:
        wait_until(lambda: traffic.rate(missing) is None, what="the end of the series")
        found = check("--check-sources", file)
    finally:
        traffic.set_quiet(*traffic.workers)
    assert found.returncode == 2 and missing in found.stderr, found.stdout + found.stderr


def test_without_prometheus_the_check_fails(traffic: Traffic, file: Path) -> None:
    traffic.prometheus.kill()
    try:
        found = check("--check-sources", file)
    finally:
        traffic.prometheus.start()
    assert found.returncode == 2 and traffic.prometheus.url in found.stdout + found.stderr
    assert check("--check-config", file).returncode == 0


def test_a_series_of_no_node_is_printed(traffic: Traffic, file: Path) -> None:
    """The label `instance` has the addresses of the nodes, and only their names are permitted."""
    changed = yaml.safe_load(file.read_text())
    changed["sources"]["prometheus"]["node_rules"] = ["name"]
    file.write_text(yaml.safe_dump(changed))
    found = check("--check-sources", file)
    address = traffic.instances[traffic.workers[0]]
    assert found.returncode == 2 and f"node {traffic.workers[0]}\n  no series" in found.stdout, found.stdout + found.stderr
    assert any("node_network_receive_bytes_total" in line and address in line for line in found.stdout.splitlines()), found.stdout


def test_promtool_accepts_the_metrics(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> None:
    extender = start_extender(settings(traffic, str(extender_kubeconfig)))
    extender.scores(traffic.workers, PROFILE)
    text = extender.get("/metrics")[1]
    checked = subprocess.run([str(binaries.promtool()), "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
