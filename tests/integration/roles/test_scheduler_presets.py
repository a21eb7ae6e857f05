# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The real kube-scheduler accepts the configuration of each preset, and reads it as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab import binaries
from tests.integration.scheduler_config.scheduler_program import written_by
from tests.unit.second_scheduler.requested import CASES, PROMETHEUS, files
from tests.unreachable_cluster import KUBECONFIG

OWN = {
    "profiles": [{"schedulerName": "quiet", "percentageOfNodesToScore": 100}, {"schedulerName": "balanced"}],
    "extenders": [
        {
            "settings": {"profiles": {"quiet": {"agents": [{"name": "network_traffic"}]}, "balanced": {"agents": [{"name": "pigeon"}]}}},
            "entries": [
                {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 5, "httpTimeout": "1m2.5s"},
                {"preemptVerb": "preempt", "ignorable": False, "managedResources": [{"name": "example.org/x", "ignoredByScheduler": True}]},
            ],
        }
    ],
}
"""Own profiles and extenders, with each field that the role accepts."""


def read_by_the_scheduler(configuration: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the configuration as kube-scheduler writes it, with its defaults."""
    (folder / "kubeconfig").write_text(KUBECONFIG)
    given = {**configuration, "clientConnection": {"kubeconfig": str(folder / "kubeconfig")}}
    return written_by(str(binaries.ensure() / "kube-scheduler"), given, folder)


def without_false(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries as kube-scheduler writes them: without false values."""
    return [{name: value for name, value in entry.items() if value is not False} for entry in entries]


@pytest.mark.parametrize(("preset", "weights"), CASES)
def test_the_scheduler_reads_the_configuration_of_a_preset(preset: str, weights: str, tmp_path: Path) -> None:
    made = files(preset=preset, weights=weights, prometheus_urls=PROMETHEUS)
    written = read_by_the_scheduler(made["scheduler"], tmp_path)
    assert written["extenders"] == without_false(made["scheduler"]["extenders"])
    assert [profile["schedulerName"] for profile in written["profiles"]] == made["profiles"]
    # The default plugins stay.
    assert written["profiles"][0]["plugins"]["multiPoint"]["enabled"] and "score" in written["profiles"][0]["plugins"]
    assert made["scheduler"]["leaderElection"].items() <= written["leaderElection"].items()


def test_the_scheduler_reads_own_profiles_and_extenders(tmp_path: Path) -> None:
    made = files(**OWN)
    assert made["mistakes"] == []
    written = read_by_the_scheduler(made["scheduler"], tmp_path)
    assert written["extenders"] == without_false(made["scheduler"]["extenders"])
    assert [profile.get("percentageOfNodesToScore") for profile in written["profiles"]] == [100, None]
