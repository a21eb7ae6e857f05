# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of after_maintenance.yml are declared once, and are in the guide."""

from __future__ import annotations

import re

from tools import tables
from tools.paths import ROOT

NAME = "after_maintenance"
FILES = [ROOT / "playbooks" / f"{NAME}.yml", *sorted((ROOT / "playbooks" / "tasks").glob(f"{NAME}_*.yml"))]
TEXT = "\n".join(line for file in FILES for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))
SPEC = tables.variables(NAME)[f"__{NAME}_argument_spec"]


def test_each_variable_that_is_read_is_declared_and_each_declared_one_is_read() -> None:
    read = set(re.findall(rf"(?<![_.a-z/]){NAME}_[a-z_]+\b", TEXT))
    assert read - {file.stem for file in FILES} == set(SPEC)


def test_each_variable_of_rebalance_that_is_read_is_declared() -> None:
    read = set(re.findall(r"(?<![_.a-z/])rebalance_[a-z_]+\b", TEXT))
    assert read and read <= set(tables.variables("rebalance")["__rebalance_argument_spec"])


def test_a_default_that_the_playbook_sets_is_the_declared_one() -> None:
    own = dict(re.findall(rf"\b({NAME}_[a-z_]+) \| default\((\w+)\)", TEXT))
    assert own and {name: str(SPEC[name]["default"]).lower() for name in own} == own


def test_the_guide_has_the_present_table_of_variables() -> None:
    guide = (ROOT / tables.GUIDES[NAME]).read_text()
    assert tables.with_table(guide, NAME) == guide, "run `make tables`"
