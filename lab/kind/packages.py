# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian packages that the cluster's parts need on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from lab.errors import LabError
from lab.kind.commands import run

PROGRAMS = {"dockerd": "docker.io", "containerd": "containerd", "runc": "runc", "iptables": "iptables"}
"""Programs of the engine, and the packages that have them."""
BUILD_PROGRAMS = {"debootstrap": "debootstrap", "containerd": "containerd", "ctr": "containerd"}
"""Programs that the node image is built with."""
PATHS = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""Debian's packages have some of these programs where only root's PATH finds them."""


def missing(programs: dict[str, str]) -> list[str]:
    """Return the packages of the programs that this machine lacks."""
    return sorted({package for program, package in programs.items() if shutil.which(program, path=PATHS) is None})


def missing_privilege() -> str:
    """Return why packages cannot be installed, or an empty text."""
    if os.geteuid() != 0:
        return "only root can install packages"
    if shutil.which("apt-get") is None:
        return "this machine has no apt-get"
    return ""


def install(packages: list[str], log: Callable[[str], None]) -> None:
    """Install packages with apt-get. Nothing is started by that."""
    if not packages:
        return
    reason = missing_privilege()
    if reason:
        raise LabError(
            f"packages {', '.join(packages)}: they are missing, and {reason}. Install them in another way, or run this as root on Debian."
        )
    names = " ".join(packages)
    log(f"apt-get: installing {names}")
    remedy = f"Check that apt-get reaches its package sources, or install these packages in another way: {names}"
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"]
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run([*apt, "update"], what="apt-get update", log=log, remedy=remedy, env=environment)
    command = [*apt, "install", "--no-install-recommends", *packages]
    run(command, what=f"apt-get install {names}", log=log, remedy=remedy, env=environment)
