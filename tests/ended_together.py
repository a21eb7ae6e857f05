# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Programs that start processes in sessions of their own, such as ansible-rulebook.

All of these processes end with the program, and the program ends with the test.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


def ended_together(command: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    """Return the command with a PID namespace of its own.

    The kernel ends each process of the namespace when the started process is killed, and that one when the thread that has started it ends.
    So nothing is left if the test is interrupted or killed. End it with SIGKILL: the first process of a namespace ignores other signals.
    """
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *as_root, "--pid", "--fork", "--kill-child", *command]
