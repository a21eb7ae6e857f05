# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of playbooks/awx.yml against the server of controller.py."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tests import ansible_core
from tests.integration.awx.controller import TOKEN, Controller
from tools.paths import ROOT

IMAGE = {"awx_setup_image": "registry.example.org/kube-scheduling-ee:1"}


class SetupRun(NamedTuple):
    """The exit code and the output of a run."""

    code: int
    output: str

    @property
    def in_one_line(self) -> str:
        """The output without its line breaks, which ansible-core 2.18 also has within a sentence."""
        return " ".join(self.output.split())

    @property
    def changed(self) -> int:
        found = re.search(r"^localhost +: .*changed=(\d+)", self.output, re.MULTILINE)
        assert found, self.output
        return int(found[1])


def set_up(
    served: Controller | None, folder: Path, *arguments: str, connection: dict[str, str] | None = None, **variables: Any
) -> SetupRun:
    """Run the playbook with these variables, by default with the token of the server. None removes a variable."""
    command = [str(ansible_core.programs() / "ansible-playbook"), str(ROOT / "playbooks" / "awx.yml")]
    command += [*arguments, "-e", json.dumps({name: value for name, value in {**IMAGE, **variables}.items() if value is not None})]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("CONTROLLER_", "TOWER_"))}
    environment |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "true"}
    if served is not None:
        environment |= {"CONTROLLER_HOST": served.url, **({"CONTROLLER_OAUTH_TOKEN": TOKEN} if connection is None else connection)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return SetupRun(done.returncode, done.stdout + done.stderr)
