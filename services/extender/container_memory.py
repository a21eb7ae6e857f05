# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The memory that the limit of a container leaves for one more extender.

The kernel kills all processes of a container that reaches its limit, also the extender that answers the scheduler.
"""

from __future__ import annotations

from pathlib import Path

from ..common.cgroup import CGROUP, MIB, memory_limit

LEAST_BYTES = 64 * MIB
"""The memory of an extender for a small cluster."""


def memory_shortage(cgroup: Path = CGROUP) -> str:
    """Return a sentence if a second extender beside the present processes may exceed the limit. Otherwise return an empty text.

    The second one needs about as much as the first. Pages of files do not count, because the kernel can drop them.
    """
    limit = memory_limit(cgroup)
    if limit is None:
        return ""
    lines = (cgroup / "memory.stat").read_text().splitlines()
    used = sum(int(number) for name, _blank, number in (line.partition(" ") for line in lines) if name in ("anon", "kernel"))
    needed = max(LEAST_BYTES, used)
    if limit - used >= needed:
        return ""
    return (
        f"--check-sources needs about {needed // MIB} MiB, and the container has {max(0, limit - used) // MIB} of {limit // MIB} MiB left:"
        f" raise its memory limit to {(used + needed) // MIB + 1} MiB, or run the command in another container"
    )
