# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Programs that start processes in sessions of their own, such as ansible-rulebook.

All of these processes end with the program, and the program ends with the test.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from tests.not_run import not_run

AS_ROOT = ["--user", "--map-root-user"]


def ended_together(command: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return the command with a PID namespace of its own.

    The kernel ends each process of the namespace when the started process is killed, and that one when the thread that has started it ends.
    So nothing is left if the test is interrupted or killed. End it with SIGKILL: the first process of a namespace ignores other signals.
    Where this user cannot make a namespace, the test is skipped, or fails under KUBE_SCHEDULING_REQUIRE_ENGINE=1.
    """
    obstacle = namespace_obstacle()
    if obstacle:
        not_run(obstacle)
    as_root = [] if os.geteuid() == 0 else AS_ROOT
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *as_root, "--pid", "--fork", "--kill-child", *command]


def namespace_obstacle() -> str:
    """Return why this user cannot make a namespace, or an empty text. AppArmor of Ubuntu 24.04 permits it only to root."""
    if os.geteuid() == 0:
        return ""
    tried = subprocess.run(["unshare", *AS_ROOT, "true"], capture_output=True, text=True)
    return f"this user cannot make a user namespace: {tried.stderr.strip()}" if tried.returncode else ""
