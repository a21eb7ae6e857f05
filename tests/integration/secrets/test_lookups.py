# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lookup in a variable, as of a secret store, is not asked once for each variable of a role."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml

from lab.layout import REPOSITORY


def test_the_check_of_the_variables_of_a_role_asks_a_lookup_a_few_times(commands: Path, tmp_path: Path) -> None:
    """ansible-core 2.18 evaluates a variable again at each use: 228 times before the check kept the values during its loops."""
    calls = tmp_path / "calls"
    lookup = f"{{{{ lookup('ansible.builtin.pipe', 'echo call >> {calls}; echo word') }}}}"
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "node_exporter_basic_auth_users": {"prometheus": lookup},
        },
        "tasks": [{"ansible.builtin.include_role": {"name": "onprem.kube_scheduling.node_exporter", "tasks_from": "check"}}],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    environment = os.environ | {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_LOCALHOST_WARNING": "false"}
    done = subprocess.run(
        [str(commands / "ansible-playbook"), str(tmp_path / "play.yml")],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert 0 < len(calls.read_text().splitlines()) <= 20
