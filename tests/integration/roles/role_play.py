# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs a role of this collection as ansible-playbook does, and counts what it changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.layout import REPOSITORY
from tests import ansible_core


@dataclass(frozen=True)
class RoleRun:
    """The exit code and the output of one run."""

    code: int
    output: str

    @property
    def changed(self) -> int:
        """The number of tasks that have changed something, or would change it."""
        found = re.search(r"^localhost +: .*changed=(\d+)", self.output, re.MULTILINE)
        assert found, self.output
        return int(found.group(1))


@dataclass(frozen=True)
class RolePlay:
    """A role with its variables, which all runs get. ``folder`` is for the playbook, ``tasks_from`` one file of the role's tasks."""

    role: str
    folder: Path
    variables: dict[str, Any] = field(default_factory=dict)
    tasks_from: str = "main"

    def run(self, *arguments: str, then: Sequence[dict[str, Any]] = (), **variables: Any) -> RoleRun:
        """Run the role with more variables, and the tasks `then` after it."""
        role = {"name": f"onprem.kube_scheduling.{self.role}", "tasks_from": self.tasks_from}
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
            "tasks": [{"ansible.builtin.include_role": role}, *then],
        }
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([play]))
        return ansible_playbook(playbook, *arguments, "-e", json.dumps(self.variables | variables), folder=self.folder)


def ansible_playbook(playbook: Path | str, *arguments: str, folder: Path, programs: Path | None = None) -> RoleRun:
    """Run a playbook. The environment has no connection to a cluster, so a playbook connects only as its variables say.

    ``programs`` is the folder of another ansible-playbook than the one of these tests.
    """
    command = [str((programs or ansible_core.programs()) / "ansible-playbook"), str(playbook), *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE"))}
    environment |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_SHOW_CUSTOM_STATS": "true",
        "ANSIBLE_NOCOLOR": "true",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return RoleRun(done.returncode, done.stdout + done.stderr)
