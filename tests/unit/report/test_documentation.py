# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables and tags of rebalance.yml stand in its head and in its guide."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.variables import REBALANCE, RESCUE
from ansible_collections.onprem.kube_scheduling.plugins.modules.k8s_critical_rescue import argument_spec

ROOT = Path(__file__).parents[3]
PLAYBOOK = (ROOT / "playbooks" / "rebalance.yml").read_text()
GUIDE = (ROOT / "docs" / "rebalance.md").read_text()
VARIABLE = r"\brebalance_[a-z_]+\b"
NOT_VARIABLES = {"rebalance_report"}  # the template's name

HEAD = "\n".join(line for line in PLAYBOOK.splitlines() if line.startswith("#"))
BODY = "\n".join(line for line in PLAYBOOK.splitlines() if not line.startswith("#"))
USED = set(re.findall(VARIABLE, BODY)) - NOT_VARIABLES


def test_the_head_of_the_playbook_lists_all_variables_and_no_others() -> None:
    assert set(re.findall(VARIABLE, HEAD)) == USED


def test_the_guide_has_a_row_for_each_variable() -> None:
    assert set(re.findall(rf"^\| `({VARIABLE})` \|", GUIDE, re.MULTILINE)) == USED


def test_the_playbook_accepts_the_variables_that_it_uses() -> None:
    assert set(REBALANCE.names) == USED


def test_the_guide_says_the_least_value_of_each_number() -> None:
    for name, minimum in REBALANCE.numbers.items():
        assert re.search(rf"^\| `rebalance_{name}` \|.*At least {minimum}[ ,.]", GUIDE, re.MULTILINE), name


def test_the_guide_shows_the_defaults_of_the_playbook() -> None:
    defaults = dict(re.findall(rf"({VARIABLE}) \| default\('?(\w+)'?\)", BODY))
    rows = dict(re.findall(rf"^\| `({VARIABLE})` \| `([^`]*)`", GUIDE, re.MULTILINE))
    own = {name: value for name, value in defaults.items() if value != "omit"}
    assert own
    assert {name: rows[name] for name in own} == own


def test_the_guide_names_all_tags() -> None:
    tags = {tag for found in re.findall(r"tags: \[(.*)\]", BODY) for tag in found.split(", ")} - {"always"}
    assert tags == {"check", "restart", "verify", "report"}
    assert all(f"`{tag}`" in GUIDE for tag in tags)


RESCUE_PLAYBOOK = (ROOT / "playbooks" / "rescue.yml").read_text()


def test_the_rescue_playbook_uses_lists_and_accepts_the_same_variables() -> None:
    lines = RESCUE_PLAYBOOK.splitlines()
    head = "\n".join(line for line in lines if line.startswith("#"))
    used = set(re.findall(r"(?<!_)\brescue_[a-z_]+\b", "\n".join(line for line in lines if not line.startswith("#")))) - {"rescue_plan"}
    assert used == set(RESCUE.names) == set(re.findall(r"\brescue_[a-z_]+\b", head))


def test_the_rescue_playbook_has_a_variable_for_each_option_of_the_module() -> None:
    spec = set(argument_spec())
    assert {name.removeprefix("rescue_") for name in RESCUE.names} - spec == {"hosts", "kubeconfig", "context", "plan_only"}
    assert spec <= {name.removeprefix("rescue_") for name in RESCUE.names}
