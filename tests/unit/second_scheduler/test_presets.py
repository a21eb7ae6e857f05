# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files that the presets make: the extender accepts them, and the weights are those of the original."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.presets import PRESETS
from ansible_collections.onprem.kube_scheduling.services.extender.cli import main

from tests.unit.second_scheduler.requested import CASES, PROMETHEUS, files
from tools.paths import ROOT

README = (ROOT / "roles" / "extended_scheduler" / "README.md").read_text()


@pytest.mark.parametrize(("preset", "weights"), CASES)
def test_the_extender_accepts_the_files_of_a_preset(preset: str, weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = files(preset=preset, weights=weights, prometheus_urls=PROMETHEUS)
    assert made["mistakes"] == [] and made["profiles"] == ["network-traffic"]
    for extender in made["extenders"]:
        file = tmp_path / f"{extender['name']}.yaml"
        file.write_text(yaml.safe_dump(extender["settings"]))
        assert main(["--config", str(file), "--check-config"], {}) == 0
        assert "note:" not in capsys.readouterr().err


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_only_a_preset_that_preempts_is_not_ignorable_and_none_filters(preset: str) -> None:
    for entry in files(preset=preset)["scheduler"]["extenders"]:
        assert "filterVerb" not in entry and entry["httpTimeout"] == "200ms" and entry["nodeCacheCapable"]
        assert entry["ignorable"] is not (preset == "budget_safe_preemption")


def test_the_original_points_of_safe_are_those_of_its_two_entries() -> None:
    made = files(preset="safe", weights="original")
    (entry,), (extender,) = made["scheduler"]["extenders"], made["extenders"]
    agents = {agent["name"]: agent["weight"] for agent in extender["settings"]["profiles"]["network-traffic"]["agents"]}
    points = {name: entry["weight"] * weight / sum(agents.values()) for name, weight in agents.items()}
    assert points == {"safe_overload": 1, "safe_balance": 10}


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("network_traffic", [10]),
        ("congestion", [10]),
        ("pigeon", [10]),
        ("reward", [10]),
        ("safe_congestion", [1, 1]),
        ("safe_pigeon", [1, 1]),
    ],
)
def test_the_original_weights(preset: str, expected: list[int]) -> None:
    made = files(preset=preset, weights="original")
    assert [entry["weight"] for entry in made["scheduler"]["extenders"]] == expected


def test_the_extenders_of_a_preset_have_the_ports_of_the_original() -> None:
    made = files(preset="safe_congestion", prometheus_urls=PROMETHEUS)
    assert [entry["urlPrefix"] for entry in made["scheduler"]["extenders"]] == [
        f"http://127.0.0.1:{port}/scheduler" for port in (5401, 5402)
    ]  # fmt: skip
    assert [extender["settings"]["listen"] for extender in made["extenders"]] == ["127.0.0.1:5401", "127.0.0.1:5402"]


def test_readme_has_a_row_for_each_preset_with_its_agents_and_weights() -> None:
    rows = {name: row for name, row in re.findall(r"^\| `(\w+)` \|(.*)\|$", README, re.MULTILINE) if name in PRESETS}
    assert set(rows) == set(PRESETS)
    for name, row in rows.items():
        cells = [cell.strip() for cell in row.split("|")]
        for column, weights in enumerate(("mild", "original"), 1):
            texts = []
            for extender in PRESETS[name][weights]:
                agents = " and ".join(
                    f"`{agent}`" + (f" × {weight}" if len(extender.agents) > 1 else "") for agent, weight in extender.agents.items()
                )
                texts.append(agents if extender.preempts else f"{agents}: {extender.weight}")
            assert cells[column] == ("; ".join(texts)), name
