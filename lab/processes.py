# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the processes of a cluster, and end them.

A process is a cluster's own when it was started from the cluster's `bin` folder, or when a pid file names it and its
arguments point into the cluster's folder (programs behind a wrapper script). Nothing else is ever signalled.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from lab.errors import LabError

PROC = Path("/proc")
ARGUMENTS_WITHIN_S = 0.5


def arguments(pid: int) -> list[str]:
    """Command line of a process; empty for one that has ended or is a zombie."""
    try:
        text = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return []
    return text.split("\0")[:-1]


def pid_in(pid_file: Path, kwok: Path) -> int | None:
    """The living process that a pid file of the cluster in `kwok` names; None for a stale file."""
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return None
    # For a moment after its start a process has no arguments yet.
    deadline = time.monotonic() + ARGUMENTS_WITHIN_S
    while not (found := arguments(pid)) and not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.002)
    return pid if any(f"{kwok}/" in argument for argument in found) else None


def has_ended(pid: int) -> bool:
    """Return whether the process has ended. A zombie has ended, too: its parent has not read its exit code yet."""
    return _stat(pid)[:1] in ([], ["Z"], ["X"])


def own_pids(kwok: Path) -> set[int]:
    """All living processes of the cluster in `kwok`, also those whose pid file was never written."""
    named = {pid_in(path, kwok) for path in (kwok / "pids").glob("*.pid")}
    running = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    started_here = {pid for pid in running if "".join(arguments(pid)[:1]).startswith(f"{kwok}/bin/")}
    return started_here | {pid for pid in named if pid is not None}


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signal a process; one that has just ended is fine."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def kill_all(kwok: Path, *, timeout_s: float = 10.0) -> int:
    """End every process of a cluster and return how many there were; raise when one survives.

    SIGKILL immediately: the cluster's data goes with it, and a paused process would not see a gentler signal.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + timeout_s
    while left := own_pids(kwok):
        if time.monotonic() > deadline:
            numbers = " ".join(map(str, sorted(left)))
            raise LabError(f"processes {numbers} of {kwok} did not end: end them with kill -9 {numbers}")
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        killed.update(left)
        time.sleep(0.02)
    return len(killed)


def started_at(pid: int) -> str:
    """Return the start time of the process in clock ticks, or an empty string if it has ended. Time and pid together identify a process."""
    return "".join(_stat(pid)[19:20])


def cpu_s(pid: int) -> float:
    """Return the CPU seconds, user and system, that the process has used so far; 0 if it has ended."""
    return sum(map(int, _stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty when the process has ended."""
    try:
        # The field before is the program's name, which may contain blanks and brackets.
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
