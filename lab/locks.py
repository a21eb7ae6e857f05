# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock file between processes, held for the length of a `with` block.

The kernel drops it when its holder dies, so an interrupted run never blocks the next one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ANNOUNCE_EVERY_S = 8.0


@contextmanager
def locked(path: Path, *, why: str = "", log: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock at `path`. While another process has it, say every few seconds what is waited for, and for how many seconds already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(handle, path, why, log)
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, path: Path, why: str, log: Callable[[str], None] | None) -> None:
    started = next_line = time.monotonic()
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if log and time.monotonic() >= next_line:
                holder = path.read_text().strip() or "unknown"
                log(f"waiting for process {holder}{f' {why}' if why else ''}: {time.monotonic() - started:.0f} s")
                next_line = time.monotonic() + ANNOUNCE_EVERY_S
            time.sleep(0.05)
