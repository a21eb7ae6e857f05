# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of a playbook are declared once, agree with the options of the modules, and are in the guide."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules import site
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.text_map import MIN_WIDTH
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import MINIMA as RESCUE_MINIMA
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import MINIMA as CHECK_MINIMA
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import NAMESPACE_ANNOTATIONS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import MINIMA as RESTART_MINIMA

from tests.style.sources import report
from tools import tables
from tools.errors import ToolError
from tools.paths import ROOT

FOLDER = ROOT / "playbooks"
PREFIXES = {name: "awx_setup" if name == "awx" else name for name in tables.GUIDES}
SITE = ("site", "scheduler", "verify", "uninstall")
"""The playbooks that share the variables of site.yml."""
FILES = {
    "after_maintenance": [FOLDER / "after_maintenance.yml", *sorted(FOLDER.glob("tasks/after_maintenance_*.yml"))],
    "awx": [FOLDER / "awx.yml", FOLDER / "vars" / "awx_objects.yml"],
    "rebalance": [FOLDER / "rebalance.yml"],
    "rescue": [FOLDER / "rescue.yml"],
    "site": [
        *(FOLDER / f"{name}.yml" for name in SITE),
        *(file for start in ("site", "scheduler") for file in sorted(FOLDER.glob(f"tasks/{start}_*.yml"))),
    ],
}
"""The files that read the variables of a playbook."""
RULES = {name for name in vars(site) if name.startswith("site_")}
NO_VARIABLES = {"rebalance_report", "rescue_plan", "rescue_totals", "awx_setup_", *RULES} | {
    file.stem for file in FOLDER.glob("tasks/*.yml")
}
"""Filters, a start of names, rules, and files of tasks."""
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
TAGS = {"rebalance": {"check", "restart", "verify", "report"}, "rescue": {"check", "rescue"}}
SITE_VALUES = (FOLDER / "vars" / "site.yml").read_text().partition("# The values of the variables.")[2]
"""The file declares the variables, and then has their values with the defaults, which the playbooks use."""


def lines_of(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]


def text_of(playbook: str) -> str:
    """Return the files that read the variables of a playbook, without comments."""
    lines = [line for file in FILES[playbook] for line in lines_of(file)]
    values = SITE_VALUES.splitlines() if playbook == "site" else []
    return "\n".join([*lines, *(line for line in values if not line.lstrip().startswith("#"))])


def read_variables(playbook: str, text: str) -> set[str]:
    return set(re.findall(rf"(?<![_.a-z/]){PREFIXES[playbook]}_[a-z_]+\b", text)) - NO_VARIABLES


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
        found["namespace_annotation"] = {**found["namespace_annotation"], "default": "=".join(NAMESPACE_ANNOTATIONS[0])}
    return found


def test_each_variable_that_a_playbook_reads_is_declared_and_each_declared_one_is_read() -> None:
    assert {playbook: read_variables(playbook, text_of(playbook)) for playbook in FILES} == {
        playbook: set(spec_of(playbook)) for playbook in tables.GUIDES
    }


def test_each_variable_of_rebalance_that_after_maintenance_reads_is_declared() -> None:
    read = read_variables("rebalance", text_of("after_maintenance"))
    assert read and read <= set(spec_of("rebalance"))


def test_a_variable_has_the_type_the_choices_and_the_default_of_its_option() -> None:
    wrong = []
    for playbook in MODULES:
        options = options_of(playbook)
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


def test_a_default_that_a_playbook_sets_is_the_declared_one() -> None:
    for playbook, prefix in PREFIXES.items():
        declared = {name: str(entry.get("default")).lower() for name, entry in spec_of(playbook).items()}
        found = re.findall(rf"\b({prefix}_[a-z_]+) \| default\('?([\w:%/-]*)'?\)", text_of(playbook))
        # Other playbooks than site read a variable that is not set as an empty text.
        own = {
            (name, value.lower())
            for name, value in found
            if value != "omit" and not value.startswith("__") and (value or playbook == "site")
        }
        assert own, playbook
        assert own <= declared.items()


def test_the_defaults_of_site_are_not_repeated_in_its_playbooks() -> None:
    lines = [line for file in FILES["site"] for line in lines_of(file) if file.stem != "uninstall"]
    # rebalance.yml does not read the file with the values.
    assert [line for line in lines if re.search(r"\bsite_[a-z_]+ \| default", line) and "__rebalance_default_" not in line] == []


def test_the_lowest_values_are_those_of_the_options() -> None:
    for playbook, minima in MINIMA.items():
        options, spec = {f"{playbook}_{name}": minimum for name, minimum in minima.items()}, spec_of(playbook)
        declared = tables.variables(playbook)[f"__{playbook}_minima"]
        assert declared == {name: minimum for name, minimum in options.items() if name in spec}


def test_the_rescue_playbook_has_a_variable_for_each_option_of_the_module() -> None:
    assert {f"rescue_{name}" for name in options_of("rescue")} <= set(spec_of("rescue"))


def test_the_guides_have_the_present_tables_of_variables_and_rights() -> None:
    changed = [
        *(guide for name, guide in tables.GUIDES.items() if tables.with_table(text := (ROOT / guide).read_text(), name) != text),
        *(guide for role, guide in tables.RIGHTS.items() if tables.with_rights(text := (ROOT / guide).read_text(), role) != text),
        *(
            guide
            for name, (guide, _lists) in tables.INSTALLING_RIGHTS.items()
            if tables.with_installing_rights(text := (ROOT / guide).read_text(), name) != text
        ),
    ]
    report(f"{guide}: run `make tables`" for guide in changed)


def test_a_guide_without_a_place_for_the_table_is_refused_with_the_lines_to_add() -> None:
    with pytest.raises(ToolError, match=r"add the lines <!-- variables of rescue\.yml"):
        tables.with_table("# A guide\n", "rescue")


def test_the_guides_name_all_tags() -> None:
    for playbook in (*TAGS, "site"):
        found = re.findall(r"tags: \[(.*)\]", (FOLDER / f"{playbook}.yml").read_text())
        tags = {tag for line in found for tag in line.split(", ")} - {"always", "never"}
        assert tags == TAGS.get(playbook, tags)
        guide = (ROOT / tables.GUIDES[playbook]).read_text()
        assert {tag for tag in tags if f"`{tag}`" not in guide} == set()


def test_the_guide_names_each_job_template_and_each_playbook_of_the_project_has_one() -> None:
    guide, objects = (ROOT / tables.GUIDES["awx"]).read_text(), (FOLDER / "vars" / "awx_objects.yml").read_text()
    names = set(re.findall(r"^  - name: \"{{ __awx_prefix }}([a-z-]+)\"", objects, re.MULTILINE))
    assert len(names) == 6 and all(f"| `{name}`" in guide for name in names)
    used = set(re.findall(r"{{ __awx_folder }}(\w+\.yml)", objects))
    assert used == {file.name for file in (ROOT / "awx" / "project").glob("*.yml")}
