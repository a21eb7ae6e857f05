# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The memory limit of the container, from its cgroup."""

from __future__ import annotations

from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""The cgroup of the container (cgroup v2). On a machine itself, this folder has no ``memory.max``."""

MIB = 2**20


def memory_limit(cgroup: Path = CGROUP) -> int | None:
    """Return the limit in bytes. None without a container, without a limit ("max"), and with cgroup v1."""
    try:
        return int((cgroup / "memory.max").read_text())
    except (OSError, ValueError):
        return None
