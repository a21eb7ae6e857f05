# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples have only variables that exist, and few lines to change."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.services.rebalancer.settings import read_settings

from tools.paths import ROOT

EXAMPLES = sorted(folder for folder in (ROOT / "examples").iterdir() if folder.is_dir())
ROLES = ("critical_rescuer", "extended_scheduler", "node_exporter", "service_image", "spread_cronjob")
MOST_CHANGES = 10

pytestmark = pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)


def declared() -> dict[str, Any]:
    """The options of all variables of the roles and of site.yml."""
    found: dict[str, Any] = dict(yaml.safe_load((ROOT / "playbooks" / "vars" / "site.yml").read_text())["__site_argument_spec"])
    for role in ROLES:
        found |= yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    return found


def variables(folder: Any) -> dict[str, Any]:
    (play,) = yaml.safe_load((folder / "site.yml").read_text())
    return {**yaml.safe_load((folder / "group_vars" / "all.yml").read_text()), **play.get("vars", {})}


def test_at_most_ten_lines_are_to_be_changed(folder: Any) -> None:
    marks = [line for file in folder.rglob("*.yml") for line in file.read_text().splitlines() if re.search(r"# change(:|$)", line)]
    assert 0 < len(marks) <= MOST_CHANGES


def test_each_variable_exists_and_has_the_type_of_its_option(folder: Any) -> None:
    specs = declared()
    given = {name: value for name, value in variables(folder).items() if not name.startswith("ansible_")}
    types = {"str": (str, int), "int": int, "bool": bool, "list": list, "dict": dict, "path": str, "raw": object}
    assert {name for name in given if name not in specs or not isinstance(given[name], types[specs[name].get("type", "str")])} == set()


def test_the_rebalancer_accepts_its_settings(folder: Any) -> None:
    settings = variables(folder).get("spread_cronjob_settings", {})
    read_settings([f"--{name.replace('_', '-')}={value}" for name, value in settings.items()], {})
