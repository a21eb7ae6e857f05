# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs a role of this collection as ansible-playbook does, and counts what it changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.layout import REPOSITORY
from tests import ansible_core

CONNECTIONS = ("K8S_AUTH_", "KUBE", "CONTROLLER_", "TOWER_")
"""The beginnings of environment variables that name a cluster or an AWX."""


@dataclass(frozen=True)
class RoleRun:
    """The exit code and the output of one run."""

    code: int
    output: str

    @property
    def in_one_line(self) -> str:
        """The output without its line breaks, which ansible-core 2.18 also has within a sentence."""
        return " ".join(self.output.split())

    @property
    def changed(self) -> int:
        """The number of tasks that have changed something, or would change it."""
        return self.changed_on("localhost")

    def changed_on(self, host: str) -> int:
        """Return this number for a host."""
        found = re.search(rf"^{re.escape(host)} +: .*changed=(\d+)", self.output, re.MULTILINE)
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
        return ansible_playbook(self.write(then), *arguments, "-e", json.dumps(self.variables | variables), folder=self.folder)

    def write(self, then: Sequence[dict[str, Any]] = (), before: Sequence[dict[str, Any]] = ()) -> Path:
        """Write the playbook, with tasks before and after the role."""
        role = {"name": f"onprem.kube_scheduling.{self.role}", "tasks_from": self.tasks_from}
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
            "tasks": [*before, {"ansible.builtin.include_role": role}, *then],
        }
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([play]))
        return playbook


def ansible_playbook(playbook: Path | str, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> RoleRun:
    """Run a playbook, with more environment variables.

    The environment has no connection to a cluster or to AWX, so a playbook connects only as its variables and these say.
    """
    command = [str(ansible_core.programs() / "ansible-playbook"), str(playbook), *arguments]
    own = {key: value for key, value in os.environ.items() if not key.startswith(CONNECTIONS)}
    own |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "ANSIBLE_SHOW_CUSTOM_STATS": "true",
        "ANSIBLE_NOCOLOR": "true",
        "PYTHONPATH": str(Path(__file__).parent / "compiled_modules"),
    }
    done = subprocess.run(command, cwd=folder, env=own | dict(environment or {}), capture_output=True, text=True, check=False)
    return RoleRun(done.returncode, done.stdout + done.stderr)
