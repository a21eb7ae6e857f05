# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each variable and setting that docs/moving-over.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.guide_blocks import blocks
from tools import tables
from tools.paths import ROOT

PAGE = (ROOT / "docs" / "moving-over.md").read_text()
VARIABLE = re.compile(r"`((?:rebalance|rescue|spread_cronjob|critical_rescuer|extended_scheduler)_[a-z_]+)")
RESCHEDULER = PAGE[PAGE.index("## From the rescheduler") :].partition("\n## ")[0]
SETTINGS = re.findall(r"^\| `--[^|]*\| `([a-z_]+)` \|", RESCHEDULER, re.MULTILINE)
RESCUER = (ROOT / "docs" / "rescuer.md").read_text()


def declared() -> set[str]:
    found = {name for playbook in tables.GUIDES for name in tables.variables(playbook)[f"__{playbook}_argument_spec"]}
    for file in (ROOT / "roles").glob("*/defaults/main.yml"):
        found |= set(yaml.safe_load(file.read_text()))
    return found


def test_the_page_names_variables_and_settings() -> None:
    assert len(set(VARIABLE.findall(PAGE))) >= 10 and len(SETTINGS) >= 7


def test_each_variable_exists() -> None:
    assert set(VARIABLE.findall(PAGE)) - declared() == set()


def test_each_setting_of_the_rescuer_exists() -> None:
    assert [name for name in SETTINGS if f"\n| `{name}` |" not in RESCUER] == []


def test_the_page_has_no_commands_without_a_test() -> None:
    assert blocks(Path("docs/moving-over.md")) == []
