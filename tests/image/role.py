# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the role service_image for one node, and return its result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import base_image
from tests.image.node import Containerd
from tools.paths import ROOT

NODE = "worker-7"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: onprem.kube_scheduling.service_image
        tasks_from: "{{ tasks_from | default('main') }}"
    - ansible.builtin.set_stats:
        data: {result: "{{ service_image_result | default({}) }}"}
"""


@dataclass(frozen=True)
class Answer:
    """The result of a run."""

    code: int
    output: str
    result: dict[str, Any]
    changed: int

    @property
    def text(self) -> str:
        """Return the output with one blank in place of the line breaks and the indentation."""
        return " ".join(self.output.split())


@dataclass(frozen=True)
class Role:
    """The role with the variables for the lab. A variable that a test gives has precedence."""

    base: str
    archives: Path
    node: Containerd
    folder: Path

    def run(self, *arguments: str, **variables: Any) -> Answer:
        """Run the role, and return what it has printed and changed."""
        play, given = self.folder / "play.yml", self.folder / "variables.json"
        play.write_text(PLAY)
        own = {
            "service_image_base": self.base,
            "service_image_python_version": base_image.PYTHON,
            "service_image_containerd_socket": str(self.node.socket),
            "service_image_archive_folder": str(self.archives),
            "service_image_node_folder": str(self.folder),
            "service_image_build_arguments": ["--network=none"],
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
        }
        given.write_text(json.dumps({**own, **variables}))
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", f"{NODE},", str(play), "-e", f"@{given}", *arguments]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_SHOW_CUSTOM_STATS": "true",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        output = done.stdout + done.stderr
        changed, stats = re.search(r"changed=(\d+)", output), re.search(r"^\s*RUN: (\{.*\})$", output, re.MULTILINE)
        assert changed is not None, output
        return Answer(done.returncode, output, json.loads(stats[1])["result"] if stats else {}, int(changed[1]))
