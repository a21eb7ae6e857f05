# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the role service_image for nodes, and return its result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
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
        data: {results: "{{ {inventory_hostname: service_image_result | default({})} }}"}
"""


@dataclass(frozen=True)
class Answer:
    """The result of a run.

    ``results`` has the fact service_image_result of each host, ``errors`` the text of the error of each failed host.
    """

    code: int
    output: str
    results: dict[str, dict[str, Any]]
    errors: dict[str, str]
    changed: int

    @property
    def reference(self) -> str:
        """Return the reference of the image."""
        return str(self.results[NODE]["reference"])


@dataclass(frozen=True)
class Role:
    """The role with the variables for the lab. A variable that a test gives has precedence."""

    base: str
    archives: Path
    node: Containerd
    folder: Path

    def run(self, *arguments: str, hosts: Mapping[str, Mapping[str, Any]] | None = None, **variables: Any) -> Answer:
        """Run the role, and return what it has printed and changed. ``hosts`` has variables of single hosts, and names all hosts."""
        play, inventory = self.folder / "play.yml", self.folder / "inventory.json"
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
        inventory.write_text(json.dumps({"all": {"hosts": hosts or {NODE: {}}, "vars": {**own, **variables}}}))
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), str(play), *arguments]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_SHOW_CUSTOM_STATS": "true",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)
        output = done.stdout + done.stderr
        changed, stats = re.findall(r"changed=(\d+)", output), re.search(r"^\s*RUN: (\{.*\})$", output, re.MULTILINE)
        assert changed, output
        return Answer(done.returncode, output, json.loads(stats[1])["results"] if stats else {}, errors_in(output), sum(map(int, changed)))


def errors_in(output: str) -> dict[str, str]:
    """Return the text of the last error of each failed host, with one blank in place of each line break."""
    found = {}
    for host, result in re.findall(r"^(?:fatal|failed): \[([\w-]+).*? => (\{.*\})$", output, re.MULTILINE):
        found[host] = " ".join(str(json.loads(result).get("msg", "")).split())
    return found
