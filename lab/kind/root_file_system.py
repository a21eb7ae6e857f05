# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian root file system of a node, made by debootstrap. It is kept in the cache until the list of packages changes."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.kind import debootstrap
from lab.layout import cache_dir
from lab.locks import locked

PACKAGES = (
    *("systemd", "systemd-sysv", "containerd", "runc", "containernetworking-plugins", "iptables", "nftables", "conntrack"),
    *("iproute2", "ethtool", "socat", "kmod", "mount", "util-linux", "e2fsprogs", "procps", "jq", "curl", "ca-certificates"),
    *("python3", "hostname", "busybox-static"),
)
UNNEEDED = ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/man/*", "usr/share/doc/*", "usr/share/locale/*")
ALTERNATIVE = ", or give an image: KUBE_SCHEDULING_KIND_IMAGE"


def key() -> str:
    return hashlib.sha256("\0".join((debootstrap.RELEASE, *PACKAGES, *UNNEEDED)).encode()).hexdigest()[:12]


def ensure(log: Callable[[str], None], *, install: bool) -> Path:
    """Return the folder of the root file system. It is made if the cache lacks it. Nothing may be changed in it.

    `install`: whether debootstrap may be installed if it is missing.
    """
    folder = cache_dir() / f"node-root-{key()}"
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock"), why="which makes the root file system of a node", log=log):
            if not folder.is_dir():
                _make(folder, log, install=install)
    return folder


def _make(folder: Path, log: Callable[[str], None], *, install: bool) -> None:
    _remove_unfinished(folder)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    root = scratch / "root"
    try:
        debootstrap.make(root, PACKAGES, UNNEEDED, log, what="root file system of a node", install=install, alternative=ALTERNATIVE)
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        root.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed runs have left. The caller has the lock."""
    for path in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(path, ignore_errors=True)
