# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian root file system of a node, made by debootstrap. It is kept in the cache until the list of packages changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.kind import packages
from lab.kind.commands import run
from lab.layout import cache_dir
from lab.locks import locked

# systemd of a newer release refuses a machine with cgroups of version 1.
RELEASE = "bookworm"
PACKAGES = (
    *("systemd", "systemd-sysv", "containerd", "runc", "containernetworking-plugins", "iptables", "nftables", "conntrack"),
    *("iproute2", "ethtool", "socat", "kmod", "mount", "util-linux", "e2fsprogs", "procps", "jq", "curl", "ca-certificates"),
    *("python3", "hostname", "busybox-static"),
)
UNNEEDED = ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*", "usr/share/man/*", "usr/share/doc/*", "usr/share/locale/*")


def key() -> str:
    return hashlib.sha256("\0".join((RELEASE, *PACKAGES, *UNNEEDED)).encode()).hexdigest()[:12]


def ensure(log: Callable[[str], None], *, install: bool) -> Path:
    """Return the folder of the root file system. It is made if the cache lacks it. Nothing may be changed in it.

    `install`: whether debootstrap may be installed if it is missing.
    """
    folder = cache_dir() / f"node-root-{key()}"
    if not folder.is_dir():
        if os.geteuid() != 0:
            raise LabError(
                "root file system of a node: debootstrap needs root: run it as root, or give an image: KUBE_SCHEDULING_KIND_IMAGE"
            )
        with locked(folder.with_suffix(".lock"), why="which makes the root file system of a node", log=log):
            if not folder.is_dir():
                packages.ensure({"debootstrap": "debootstrap"}, log, install=install)
                _make(folder, log)
    return folder


def _make(folder: Path, log: Callable[[str], None]) -> None:
    _remove_unfinished(folder)
    log(f"root file system of a node: debootstrap {RELEASE} with {len(PACKAGES)} packages, about a minute")
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", RELEASE, str(scratch / "root")]
        run(command, what="debootstrap", log=log, remedy=packages.MIRROR_REMEDY, env={"PATH": packages.PATHS})
        for pattern in UNNEEDED:
            for path in (scratch / "root").glob(pattern):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        (scratch / "root").rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed runs have left. The caller has the lock."""
    for path in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(path, ignore_errors=True)
