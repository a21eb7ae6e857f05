# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Cases of one run of ansible-playbook. Each case is a host with its own variables, and a failure ends only its own case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.roles.role_play import RolePlay, RoleRun, ansible_playbook

Cases = Mapping[str, Mapping[str, Any] | str]
"""The variables of each case by its name, or the text of a YAML file with them."""

LOCALHOST = "localhost"
"""A group of this name gets the plays that say ``hosts: localhost``."""


@dataclass(frozen=True)
class CasesRun(RoleRun):
    """The run of all cases."""

    def failure(self, case: str) -> str:
        """Return the messages of the failed tasks of a case. It is empty if none has failed."""
        begin = re.compile(rf"^(?:fatal|failed): \[{re.escape(case)}(?: -> [^\]]+)?\].*?=> (?=\{{)", re.MULTILINE)
        decoder = json.JSONDecoder()
        found = [decoder.raw_decode(self.output, match.end())[0] for match in begin.finditer(self.output)]
        return "\n".join(str(result.get("msg", result)) for result in found)


def play_cases(
    playbook: Path, cases: Cases, *arguments: str, folder: Path, group: str = LOCALHOST, environment: Mapping[str, str] | None = None
) -> CasesRun:
    """Run a playbook with a group of all cases. The arguments are those of ansible-playbook."""
    inventory = folder / "cases.json"
    inventory.write_text(json.dumps({group: {"hosts": dict.fromkeys(cases)}}))
    variables = folder / "host_vars"
    variables.mkdir()
    for name, given in cases.items():
        (variables / f"{name}.yml").write_text(given if isinstance(given, str) else json.dumps(given))
    run = ansible_playbook(playbook, "-i", str(inventory), *arguments, folder=folder, environment=environment)
    return CasesRun(run.code, run.output)


def play_role(role: RolePlay, cases: Mapping[str, Mapping[str, Any]], *arguments: str) -> CasesRun:
    """Run a role with a group of all cases, each of which has the variables of the role and its own ones."""
    given = {name: role.variables | variables for name, variables in cases.items()}
    # Variables of a host do not replace those in the folder `vars` of a role, which begin with two underscores.
    internal = any(name.startswith("__") for variables in given.values() for name in variables)
    before = [{"ansible.builtin.include_vars": "host_vars/{{ inventory_hostname }}.yml", "no_log": True}] if internal else []
    return play_cases(role.write(before=before), given, *arguments, folder=role.folder)
