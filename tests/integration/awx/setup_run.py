# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of playbooks/awx.yml against the server of controller.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.awx.controller import TOKEN, Controller
from tests.integration.roles.host_cases import CasesRun, play_cases
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tools.paths import ROOT

IMAGE = {"awx_setup_image": "registry.example.org/kube-scheduling-ee:1"}
PLAYBOOK = ROOT / "playbooks" / "awx.yml"


def set_up(served: Controller | None, folder: Path, *arguments: str, connection: dict[str, str] | None = None, **variables: Any) -> RoleRun:
    """Run the playbook with these variables, by default with the token of the server. None removes a variable."""
    given = json.dumps(_without_none({**IMAGE, **variables}))
    return ansible_playbook(PLAYBOOK, *arguments, "-e", given, folder=folder, environment=_environment(served, connection))


def set_up_cases(served: Controller | None, folder: Path, cases: Mapping[str, Mapping[str, Any] | str]) -> CasesRun:
    """Run the playbook once, with the variables of each case. None removes a variable, and a text is YAML."""
    image = json.dumps(IMAGE).strip("{}")
    given = {name: f"{image}\n{case}" if isinstance(case, str) else _without_none({**IMAGE, **case}) for name, case in cases.items()}
    return play_cases(PLAYBOOK, given, folder=folder, environment=_environment(served))


def _without_none(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variables.items() if value is not None}


def _environment(served: Controller | None, connection: Mapping[str, str] | None = None) -> dict[str, str]:
    if served is None:
        return {}
    return {"CONTROLLER_HOST": served.url, **({"CONTROLLER_OAUTH_TOKEN": TOKEN} if connection is None else connection)}
