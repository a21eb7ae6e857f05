# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lookup in a variable, as of a secret store, is not asked once for each variable of a role."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.integration.roles.role_play import ansible_playbook


def test_the_check_of_the_variables_of_a_role_asks_a_lookup_a_few_times(tmp_path: Path) -> None:
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
    run = ansible_playbook(tmp_path / "play.yml", folder=tmp_path)
    assert run.code == 0, run.output
    assert 0 < len(calls.read_text().splitlines()) <= 20
