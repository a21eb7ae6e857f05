# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each scenario of molecule is one test with the name of its folder, and with its own time limit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest

from lab.hosts.machines import Hosts
from lab.kind.cluster import KindCluster
from tests.molecule.scenario import cluster_name, run_scenario
from tools.paths import ROOT


@pytest.mark.timeout(35 * 60)
def test_kind(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("kind", kind_environment, capsys)


@pytest.mark.timeout(60 * 60)
def test_lifecycle(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("lifecycle", kind_environment, capsys)


@pytest.mark.timeout(30 * 60)
def test_hosts(container_engine: None, capsys: pytest.CaptureFixture[str]) -> None:
    name = cluster_name("hosts")
    machines = Hosts.at(ROOT / ".lab" / "hosts" / name, name)
    _run("hosts", {**os.environ, "KUBE_SCHEDULING_HOSTS_NAME": name}, [machines], capsys)


@pytest.mark.timeout(60 * 60)
def test_faults(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("faults", kind_environment, capsys)


@pytest.mark.timeout(40 * 60)
def test_scheduler(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("scheduler", kind_environment, capsys)


@pytest.mark.timeout(90 * 60)
def test_scheduler_ha(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("scheduler_ha", kind_environment, capsys)


@pytest.mark.timeout(40 * 60)
def test_scheduler_traffic(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    name = cluster_name("scheduler_traffic")
    # The machine outside of the cluster has the cluster's network, so it is removed first.
    machines = Hosts.at(ROOT / ".lab" / "hosts" / name, name)
    _run_on_kind("scheduler_traffic", kind_environment, capsys, machines)


@pytest.mark.timeout(40 * 60)
def test_upgrade(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("upgrade", kind_environment, capsys)


@pytest.mark.timeout(40 * 60)
def test_examples(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run_on_kind("examples", kind_environment, capsys)


def _run_on_kind(scenario: str, environment: Mapping[str, str], capsys: pytest.CaptureFixture[str], *machines: Hosts) -> None:
    name = cluster_name(scenario)
    cluster = KindCluster.at(ROOT / ".lab" / "kind" / name, name)
    _run(scenario, {**environment, "KUBE_SCHEDULING_KIND_NAME": name}, [*machines, cluster], capsys)


def _run(
    scenario: str, environment: Mapping[str, str], machines: Sequence[KindCluster | Hosts], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        run_scenario(scenario, environment)
    finally:
        # Molecule removes them, but not after an interrupt.
        for group in machines:
            group.down(print)
    with capsys.disabled():
        print(f"SCENARIO {scenario}: passed")
