# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The playbooks site, verify and uninstall share declared variables, which are in the guide."""

from __future__ import annotations

import re

import pytest

from tools import tables
from tools.paths import ROOT

PLAYBOOKS = ("site", "scheduler", "verify", "uninstall")
TASKS = sorted(file for start in ("site", "scheduler") for file in (ROOT / "playbooks" / "tasks").glob(f"{start}_*.yml"))
FILES = [ROOT / "playbooks" / f"{name}.yml" for name in PLAYBOOKS] + TASKS
TASK_FILES = {file.stem for file in FILES}
VALUES = (ROOT / "playbooks" / "vars" / "site.yml").read_text().partition("# The values of the variables.")[2]
"""The file declares the variables, and then has their values with the defaults, which the playbooks use."""


def test_each_variable_that_is_read_is_declared_and_each_declared_one_is_read() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    lines += [line for line in VALUES.splitlines() if not line.lstrip().startswith("#")]
    read = set(re.findall(r"(?<![_.a-z/])site_[a-z_]+\b", "\n".join(lines))) - TASK_FILES
    assert read == set(tables.variables("site")["__site_argument_spec"])


def test_a_default_that_a_playbook_sets_is_the_declared_one() -> None:
    own = set(re.findall(r"\b(site_[a-z_]+) \| default\('?([\w:%-]*)'?\)", VALUES))
    declared = {name: str(entry["default"]) for name, entry in tables.variables("site")["__site_argument_spec"].items()}
    assert own and {(name, value) for name, value in own if value != "omit" and declared[name].lower() != value.lower()} == set()


def test_the_defaults_are_not_repeated_in_the_playbooks() -> None:
    lines = [line for file in FILES for line in file.read_text().splitlines() if file.stem not in ("uninstall", "site_remove_state")]
    # rebalance.yml does not read the file with the values.
    assert [line for line in lines if re.search(r"\bsite_[a-z_]+ \| default", line) and "__rebalance_default_" not in line] == []


def test_the_guide_has_the_present_table_of_variables() -> None:
    guide = (ROOT / tables.GUIDES["site"]).read_text()
    assert tables.with_table(guide, "site") == guide, "run `make tables`"


@pytest.mark.parametrize("playbook", sorted(tables.INSTALLING_RIGHTS))
def test_the_guide_has_the_present_rights_of_the_user(playbook: str) -> None:
    guide = (ROOT / tables.INSTALLING_RIGHTS[playbook][0]).read_text()
    assert tables.with_installing_rights(guide, playbook) == guide, "run `make tables`"


def test_the_guide_names_all_tags() -> None:
    text = (ROOT / "playbooks" / "site.yml").read_text()
    tags = {tag for found in re.findall(r"tags: \[(.*)\]", text) for tag in found.split(", ")} - {"always", "never"}
    guide = (ROOT / tables.GUIDES["site"]).read_text()
    assert {tag for tag in tags if f"`{tag}`" not in guide} == set()
