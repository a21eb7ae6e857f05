# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ports and the names of a host that its extenders use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import name_problems, port_problems

LISTENING = """\
LISTEN 0 4096 127.0.0.1:5401 0.0.0.0:* users:(("nginx",pid=1,fd=6))
LISTEN 0 4096 *:10359 *:* users:(("kube-scheduler",pid=2147483647,fd=3))
LISTEN 0 64 0.0.0.0:2049 0.0.0.0:*
"""


def run(words: Sequence[str], data: str | None = None) -> tuple[int, str, str]:
    return 0, LISTENING, ""


def test_a_program_at_a_port_is_named_unless_it_is_an_own_one() -> None:
    ports = ["5401", "10359", "2049"]
    first, second, third = port_problems(run, ports, own=(), secure_port="10359")
    assert first.startswith(": 127.0.0.1:5401 is used by nginx (PID 1") and first.endswith("): stop it")
    assert second == (
        ": *:10359 is used by kube-scheduler (PID 2147483647): stop it, or set extended_scheduler_secure_port to another port"
    )
    assert third == ": 0.0.0.0:2049 is used by kernel (PID 0): stop it"
    assert len(list(port_problems(run, ports, own=(1, 2147483647)))) == 1
    assert list(port_problems(run, [], own=())) == []


@pytest.mark.parametrize(
    ("names", "unresolved"),
    [
        (["localhost", "203.0.113.9", "2001:db8::1"], []),  # addresses without a name
        (["prometheus.monitoring.svc.invalid", "localhost"], ["prometheus.monitoring.svc.invalid"]),
        ([], []),
    ],
)
def test_addresses_need_no_name(names: list[str], unresolved: list[str]) -> None:
    assert [problem.split(",")[0] for problem in name_problems(names)] == [f" does not resolve {name}" for name in unresolved]
