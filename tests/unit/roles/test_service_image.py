# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of the role service_image are the same in its entry points and its README."""

from __future__ import annotations

import re
from typing import Any

import yaml
from ansible_collections.onprem.kube_scheduling.services.image_context import MACHINES

from tools.image_lock import PYTHONS
from tools.paths import ROOT

ROLE = ROOT / "roles" / "service_image"
SPECS: dict[str, Any] = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]
OPTIONS: dict[str, dict[str, Any]] = SPECS["main"]["options"]


def test_both_entry_points_have_the_same_variables() -> None:
    assert SPECS["reference"]["options"] == OPTIONS


def test_the_readme_names_each_variable_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(service_image_[a-z_]+)` \| (.*?) \|", (ROLE / "README.md").read_text(), re.MULTILINE))
    assert set(rows) == set(OPTIONS)
    for name, option in OPTIONS.items():
        shown = str(option["default"]).replace("'", "") or "empty"
        assert rows[name].replace("`", "") == shown, name


def test_an_image_can_have_each_python_and_machine_that_the_lock_has_wheels_for() -> None:
    assert tuple(OPTIONS["service_image_python_version"]["choices"]) == PYTHONS
    assert OPTIONS["service_image_architecture"]["choices"] == list(MACHINES)
