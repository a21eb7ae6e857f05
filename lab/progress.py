# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long commands that keep telling they are alive.

A heartbeat line at least every 8 s; on an interrupt the command and its children are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HEARTBEAT_S = 8.0


@dataclass(frozen=True)
class Result:
    code: int
    output: str

    def tail(self, lines: int) -> str:
        """The last lines of what the command said."""
        return "\n".join(self.output.strip().splitlines()[-lines:])


def end_on_signals() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, which also ends the command that runs.

    SIGINT as well: a job that a script starts in the background inherits it as ignored.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def silent(_line: str) -> None:
    """A log for those who want to hear nothing."""


def no_detail(_output: str) -> str:
    return ""


def run_with_heartbeat(
    command: list[str],
    *,
    what: str,
    log: Callable[[str], None],
    detail: Callable[[str], str] = no_detail,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Result:
    """Run a command to its end. `detail` turns its output so far into a few words for the heartbeat line."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            return Result(code=127, output=f"{command[0]}: {error}")
        try:
            while _still_running(process):
                seconds = time.monotonic() - started
                log(f"  ... {what}: {seconds:.0f} s {detail(_text(output))}".rstrip())
        except BaseException:
            _end_group(process)
            raise
        return Result(code=process.returncode, output=_text(output))


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=HEARTBEAT_S)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _text(output: IO[bytes]) -> str:
    # pread leaves the position alone, which the child shares for its writing.
    return os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")
