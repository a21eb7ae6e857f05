# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program and return its output. An error names the command, its last lines and the remedy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.errors import LabError
from lab.progress import Result, run_with_heartbeat, silent

LAST_LINES = 12
RETRY = "Run the same command again: what was done so far is kept."


def run(
    command: list[str],
    *,
    what: str,
    log: Callable[[str], None] = silent,
    remedy: str = RETRY,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run a command to its end, with lines of progress. `what` names it for people. Raises LabError if it fails."""
    result = run_with_heartbeat(command, what=what, log=log, cwd=cwd, env=os.environ | env if env else None)
    if result.code != 0:
        raise LabError(f"{what} failed (exit code {result.code}): {result.tail(LAST_LINES)}\n{remedy}")
    return result


def answer(command: list[str], *, text: str | None = None) -> str:
    """Run a short command, with `text` as its input, and return its standard output. Raises LabError if it fails."""
    try:
        result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise LabError(f"{command[0]}: {error.strerror}: install it, or add its folder to PATH") from error
    if result.returncode != 0:
        raise LabError(f"{' '.join(command)} failed (exit code {result.returncode}): {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout
