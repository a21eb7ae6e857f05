# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kube-scheduler accepts each of its configurations in docs/network-aware-scheduling.md, and knows all of their fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import binaries
from tests.integration.scheduler_config.scheduler_program import existing_files, run, written_by
from tests.unit.services.extender.test_guide import BLOCKS

Json = dict[str, Any]

CONFIGURATIONS: list[Json] = [yaml.safe_load(block) for block in BLOCKS if "urlPrefix" in block]
(WHOLE,) = [one for one in CONFIGURATIONS if one.get("kind") == "KubeSchedulerConfiguration"]
"""``scheduler.yaml`` of the guide. The others are parts, which it completes."""


@pytest.fixture(scope="module")
def program() -> str:
    """The path of kube-scheduler."""
    return str(binaries.ensure() / "kube-scheduler")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The paths of the files that the configurations name, by the field."""
    return existing_files(tmp_path)


def with_files(configuration: Json, files: dict[str, str]) -> Json:
    """Return the configuration with the paths of this test."""
    made = {**WHOLE, **configuration, "clientConnection": {"kubeconfig": files["kubeconfig"]}}
    made["extenders"] = [
        {**entry, "tlsConfig": {name: files[name] for name in entry["tlsConfig"]}} if "tlsConfig" in entry else entry
        for entry in made["extenders"]
    ]
    return made


def as_written(entry: Json) -> Json:
    """Return the entry as kube-scheduler writes it: with the default that the guide has for ``httpTimeout``, and without false values."""
    return {name: value for name, value in {"httpTimeout": "5s", **entry}.items() if value is not False}


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_the_scheduler_has_the_entries_and_the_profile_of_the_guide(
    number: int, program: str, files: dict[str, str], tmp_path: Path
) -> None:
    given = with_files(CONFIGURATIONS[number], files)
    written = written_by(program, given, tmp_path)
    assert written["extenders"] == [as_written(entry) for entry in given["extenders"]]
    assert [profile["schedulerName"] for profile in written["profiles"]] == ["network-traffic"]
    assert written["clientConnection"]["kubeconfig"] == files["kubeconfig"] and written["leaderElection"]["leaderElect"] is False


def test_the_scheduler_refuses_a_field_that_it_does_not_know(program: str, files: dict[str, str], tmp_path: Path) -> None:
    given = with_files(WHOLE, files)
    answer = run(program, {**given, "extenders": [{**given["extenders"][0], "ignoreable": True}]}, tmp_path)
    assert answer.returncode == 1 and "unknown field" in answer.stderr and "extenders[0].ignoreable" in answer.stderr
    assert not (tmp_path / "written.yaml").exists()
