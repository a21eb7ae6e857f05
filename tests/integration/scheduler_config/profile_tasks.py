# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs scheduler_profile as tasks of one playbook, and returns the result of each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.kubernetes_version import VERSION
from tests.integration.roles.role_play import ansible_playbook

Json = dict[str, Any]

MODULE = "onprem.kube_scheduling.scheduler_profile"


class Task(dict[str, Any]):
    """The options of one task, and its keywords such as check_mode."""

    def __init__(self, *, check_mode: bool = False, environment: Json | None = None, **options: Any) -> None:
        keywords = {"check_mode": check_mode, "environment": environment or {}, "ignore_errors": True}
        super().__init__({MODULE: {"kubernetes_version": VERSION, **options}, **keywords})


def run_tasks(folder: Path, *tasks: Json) -> list[Json]:
    """Run the tasks in their order on localhost. Tasks of other modules have no result."""
    output = folder / "results.json"
    listed = [{**task, "name": str(number), "register": f"result_{number}"} for number, task in enumerate(tasks)]
    results = ", ".join(f"result_{number}" for number in range(len(tasks)))
    # no_log hides nothing here, and keeps the results out of the log.
    written = {"content": "{{ [" + results + "] | to_json }}", "dest": str(output)}
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [*listed, {"ansible.builtin.copy": written, "check_mode": False, "diff": False}],
    }
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([play]))
    run = ansible_playbook(playbook, "--diff", folder=folder)
    assert run.code == 0, run.output[-5000:]
    found: list[Json] = json.loads(output.read_text())
    return found
