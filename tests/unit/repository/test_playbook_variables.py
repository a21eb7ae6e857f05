# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of a playbook are declared once, agree with the options of the modules, and are in the guide."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.text_map import MIN_WIDTH
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import MINIMA as RESCUE_MINIMA
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import DEFAULT_NAMESPACE_ANNOTATION
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import MINIMA as CHECK_MINIMA
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import MINIMA as RESTART_MINIMA

from tools import tables
from tools.errors import ToolError
from tools.paths import ROOT

PLAYBOOKS = ("rebalance", "rescue")
MODULES = {"rebalance": ("k8s_spread_check", "k8s_rollout_restart"), "rescue": ("k8s_critical_rescue",)}
MINIMA = {"rebalance": CHECK_MINIMA | RESTART_MINIMA | {"map_width": MIN_WIDTH}, "rescue": RESCUE_MINIMA}
OWN = {
    "rebalance": {
        *("hosts", "kubeconfig", "context", "plan_only", "map_width"),
        *("json_path", "map_path", "markdown_path", "metrics_path", "report_path"),
    },
    "rescue": {"hosts", "kubeconfig", "context", "plan_only"},
}
"""Variables that are no options of the modules."""
COMPARED = ("type", "elements", "choices", "default")


def text_of(playbook: str) -> str:
    """Return a playbook without its comments."""
    lines = (ROOT / "playbooks" / f"{playbook}.yml").read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def spec_of(playbook: str) -> dict[str, dict[str, Any]]:
    spec: dict[str, dict[str, Any]] = tables.variables(playbook)[f"__{playbook}_argument_spec"]
    return spec


def options_of(playbook: str) -> dict[str, dict[str, Any]]:
    """Return the options of the modules that a playbook runs, without those of the connection. The first module with an option counts."""
    found: dict[str, dict[str, Any]] = {}
    for name in MODULES[playbook]:
        module = importlib.import_module(f"ansible_collections.onprem.kube_scheduling.plugins.modules.{name}")
        found = module.argument_spec() | found
    if playbook == "rebalance":
        # The module has its default in its code, so that null is not taken for an empty text, which means all namespaces.
        assert "default" not in found["namespace_annotation"]
        found["namespace_annotation"] = {**found["namespace_annotation"], "default": DEFAULT_NAMESPACE_ANNOTATION}
    return found


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_each_variable_that_a_playbook_reads_is_declared_and_each_declared_one_is_read(playbook: str) -> None:
    filters = {"rebalance_report", "rescue_plan", "rescue_totals"}
    read = set(re.findall(rf"(?<![_.a-z]){playbook}_[a-z_]+\b", text_of(playbook))) - filters
    assert read == set(spec_of(playbook))


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_variable_has_the_type_the_choices_and_the_default_of_its_option(playbook: str) -> None:
    options, wrong = options_of(playbook), []
    for name, entry in spec_of(playbook).items():
        option = options.get(name.removeprefix(f"{playbook}_"))
        if option is None:
            assert name.removeprefix(f"{playbook}_") in OWN[playbook], name
            continue
        wrong += [
            f"{name}: {key}" for key in COMPARED if _plain(entry.get(key)) != _plain(option.get(key, "str" if key == "type" else None))
        ]
    assert wrong == []


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_a_default_that_the_playbook_sets_is_the_declared_one(playbook: str) -> None:
    own = dict(re.findall(rf"\b({playbook}_[a-z_]+) \| default\('?(\w+)'?\)", text_of(playbook)))
    declared = {name: str(entry.get("default")) for name, entry in spec_of(playbook).items()}
    own = {name: value for name, value in own.items() if value != "omit" and not value.startswith("__")}
    assert own and {name: declared[name].lower() for name in own} == own


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_lowest_values_are_those_of_the_options(playbook: str) -> None:
    declared = tables.variables(playbook)[f"__{playbook}_minima"]
    options = {f"{playbook}_{name}": minimum for name, minimum in MINIMA[playbook].items()}
    assert declared == {name: minimum for name, minimum in options.items() if name in spec_of(playbook)}


def test_the_rescue_playbook_has_a_variable_for_each_option_of_the_module() -> None:
    assert {f"rescue_{name}" for name in options_of("rescue")} <= set(spec_of("rescue"))


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_the_guide_has_the_present_table_of_variables(playbook: str) -> None:
    guide = (ROOT / tables.GUIDES[playbook]).read_text()
    assert tables.with_table(guide, playbook) == guide, "run `make tables`"


def test_a_guide_without_a_place_for_the_table_is_refused_with_the_lines_to_add() -> None:
    with pytest.raises(ToolError, match=r"add the lines <!-- variables of rescue\.yml"):
        tables.with_table("# A guide\n", "rescue")


@pytest.mark.parametrize(
    ("playbook", "expected"), [("rebalance", {"check", "restart", "verify", "report"}), ("rescue", {"check", "rescue"})]
)
def test_the_guide_names_all_tags_of_the_playbook(playbook: str, expected: set[str]) -> None:
    tags = {tag for found in re.findall(r"tags: \[(.*)\]", text_of(playbook)) for tag in found.split(", ")} - {"always"}
    guide = (ROOT / "docs" / f"{playbook}.md").read_text()
    assert tags == expected
    assert all(f"`{tag}`" in guide for tag in tags)
