# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each scenario of molecule is one test with the name of its folder, and with its own time limit."""

from __future__ import annotations

import pytest

from lab.kind.cluster import KindCluster
from tests.molecule.scenario import cluster_name, run_scenario
from tools.paths import ROOT


@pytest.mark.timeout(25 * 60)
def test_kind(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run("kind", kind_environment, capsys)


@pytest.mark.timeout(60 * 60)
def test_faults(kind_environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _run("faults", kind_environment, capsys)


def _run(scenario: str, environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    name = cluster_name(scenario)
    try:
        run_scenario(scenario, {**environment, "KUBE_SCHEDULING_KIND_NAME": name})
    finally:
        # Molecule removes it, but not after an interrupt.
        KindCluster.at(ROOT / ".lab" / "kind" / name, name).down(print)
    with capsys.disabled():
        print(f"SCENARIO {scenario}: passed")
