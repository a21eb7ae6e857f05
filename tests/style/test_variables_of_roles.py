# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of a role are declared once with their defaults, and each permission has a reason."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml

from tools.paths import ROOT

ROLES = sorted(file.parents[1] for file in (ROOT / "roles").glob("*/meta/argument_specs.yml"))
WITH_PERMISSIONS = sorted(file.parents[2] for file in (ROOT / "roles").glob("*/vars/main/permissions.yml"))


@functools.cache
def options_of(role: Path) -> dict[str, dict[str, Any]]:
    """Return the options of the main entry point."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    found: dict[str, dict[str, Any]] = specs["main"]["options"]
    return found


def test_there_are_roles() -> None:
    assert {"spread_cronjob"} <= {role.name for role in ROLES} and WITH_PERMISSIONS


def test_the_defaults_are_those_of_the_argument_spec() -> None:
    for role in ROLES:
        defaults = yaml.safe_load((role / "defaults" / "main.yml").read_text())
        assert defaults == {name: option["default"] for name, option in options_of(role).items()}, role.name


def read_by_actions(role: str) -> set[str]:
    """Return the variables that action plugins of the role read by their names, also without a prefix."""
    plugins = ROOT / "plugins"
    files = [file for folder in ("action", "plugin_utils") for file in (plugins / folder).glob(f"{role}*.py")]
    files += [file for file in (plugins / "action").glob("*.py") if f'RoleVariables("{role}"' in file.read_text()]
    files += (plugins / "module_utils" / "hosts").rglob("*.py")
    names = {name for file in files for name in re.findall(r'"([a-z_]+)"', file.read_text())}
    return names | {f"{role}_{name}" for name in names} | {f"{role}_prometheus_{name}" for name in names}


def test_each_declared_variable_is_read_and_each_read_one_is_declared() -> None:
    for role in ROLES:
        files = [file for folder in ("tasks", "handlers", "templates", "vars") for file in (role / folder).rglob("*") if file.is_file()]
        text = "\n".join(re.sub(r"^\s*#.*", "", file.read_text(), flags=re.MULTILINE) for file in files)
        read = set(re.findall(rf"(?<![\w.:/]){role.name}_[a-z_]*[a-z]", text))
        results = {f"{role.name}_result", f"{role.name}_missing"}
        assert read - results <= set(options_of(role)), f"{role.name}: not declared"
        assert set(options_of(role)) <= read | read_by_actions(role.name) | {f"{role.name}_enabled"}, f"{role.name}: not read"


def test_each_permission_has_a_reason_and_nothing_unknown() -> None:
    for role in WITH_PERMISSIONS:
        lists: dict[str, list[dict[str, Any]]] = yaml.safe_load((role / "vars" / "main" / "permissions.yml").read_text())
        for entry in (entry for entries in lists.values() for entry in entries):
            assert {"api_group", "resources", "verbs", "why"} <= set(entry) <= {
                "api_group", "resources", "verbs", "why", "names", "namespace", "rare"
            }, role.name  # fmt: skip
            assert "*" not in [entry["api_group"], *entry["resources"], *entry["verbs"]], entry


def test_a_hash_in_a_template_is_a_text_also_if_it_has_only_digits() -> None:
    lines = [
        line for role in ROLES for file in (role / "templates").glob("*.j2") for line in file.read_text().splitlines() if "-hash: " in line
    ]
    assert len(lines) == 2 and all(line.endswith(" | to_json }}") for line in lines), lines
