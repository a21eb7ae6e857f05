# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The filter failure_text finds the reason of each failed task, whose message differs between the versions of ansible-core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.integration.roles.role_play import ansible_playbook

CRASHES = """#!/usr/bin/python
raise OSError("the disk is full")
"""
"""A module that writes a traceback in place of a result."""

FAILED: dict[str, tuple[dict[str, Any], str]] = {
    "command": ({"ansible.builtin.command": {"argv": ["sh", "-c", "echo out; echo err >&2; exit 1"]}}, "err"),
    "command without an error": ({"ansible.builtin.command": {"argv": ["sh", "-c", "echo out; exit 1"]}}, "out"),
    "shell": ({"ansible.builtin.shell": {"cmd": "echo err >&2; false"}}, "err"),
    "raw": ({"ansible.builtin.raw": "echo err >&2; false"}, "err"),
    "loop": ({"ansible.builtin.command": {"argv": ["sh", "-c", "echo {{ item }} >&2; exit 1"]}, "loop": ["a", "b"]}, "a\nb"),
    "failed_when": ({"ansible.builtin.command": {"argv": ["sh", "-c", "echo err >&2"]}, "failed_when": True}, "err"),
    "login": ({"ansible.builtin.shell": {"cmd": "echo no https://me:secret@mirror >&2; false"}}, "no https://mirror"),
    "crash": ({"crashes": {}}, "OSError: the disk is full"),
    "fail": ({"ansible.builtin.fail": {"msg": "the reason"}}, "the reason"),
}
"""A task, and the reason for which it fails."""

NOT_STARTED: dict[str, tuple[dict[str, Any], str]] = {
    "argv": ({"ansible.builtin.command": {"argv": ["/no/such", "x"]}}, "/no/such"),
    "text": ({"ansible.builtin.command": {"cmd": "/no/such x"}}, "/no/such"),
}


REFUSED: dict[str, Any] = {"ansible.builtin.copy": {"content": "", "dest": "/proc/version", "mode": "0600"}}
"""A task whose message has its reason after other words in ansible-core 2.19 and later."""


def test_the_reason_of_each_failed_task_is_found(tmp_path: Path) -> None:
    found = reasons(tmp_path, {name: task for name, (task, _) in (FAILED | NOT_STARTED).items()} | {"refused": REFUSED})
    assert {name: found[name] for name in FAILED} == {name: reason for name, (_, reason) in FAILED.items()}
    assert found["refused"].startswith("The destination directory"), found
    for name, (_, program) in NOT_STARTED.items():
        assert program in found[name] and "No such file or directory" in found[name], found


def reasons(folder: Path, failed: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Run tasks that fail. Return the text of the filter for each of them."""
    library = folder / "library"  # beside the playbook, where Ansible finds it
    library.mkdir()
    (library / "crashes.py").write_text(CRASHES)
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}", "found": {}},
        "tasks": [
            {
                "block": [task],
                "rescue": [
                    {
                        "ansible.builtin.set_fact": {
                            "found": f"{{{{ found | combine({{'{name}': ansible_failed_result | onprem.kube_scheduling.failure_text}}) }}}}"
                        }
                    }
                ],
            }
            for name, task in failed.items()
        ]
        + [{"ansible.builtin.copy": {"dest": str(folder / "found.json"), "content": "{{ found | to_json }}", "mode": "0600"}}],
    }
    (folder / "play.yml").write_text(json.dumps([play]))
    run = ansible_playbook(folder / "play.yml", folder=folder)
    assert run.code == 0, run.output
    found: dict[str, str] = json.loads((folder / "found.json").read_text())
    return found
