# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian packages that the cluster's parts need on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from lab.errors import LabError
from lab.kind.commands import run

ENGINE_PROGRAMS = {"docker": "docker.io", "dockerd": "docker.io", "containerd": "containerd", "runc": "runc", "iptables": "iptables"}
"""Programs of the engine, and the packages that have them."""
BUILD_PROGRAMS = {"debootstrap": "debootstrap", "containerd": "containerd", "ctr": "containerd"}
"""Programs that the node image is built with."""
PATHS = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
"""Debian's packages have some of these programs where only root's PATH finds them."""


REMEDY = "Install them yourself, or run `python -m lab kind image` as root on Debian, which installs them."
PERMISSION = "KUBE_SCHEDULING_REQUIRE_ENGINE"


def permitted() -> bool:
    """Return whether the environment permits to install packages and to start an engine."""
    return os.environ.get(PERMISSION) == "1"


def missing(programs: dict[str, str]) -> list[str]:
    """Return the packages of the programs that this machine lacks."""
    return sorted({package for program, package in programs.items() if shutil.which(program, path=PATHS) is None})


def obstacle(*, install: bool) -> str:
    """Return why packages are not installed, or an empty text."""
    if not install:
        return f"{PERMISSION} is not 1"
    if os.geteuid() != 0:
        return "only root can install packages"
    if shutil.which("apt-get") is None:
        return "this machine has no apt-get"
    return ""


def ensure(programs: dict[str, str], log: Callable[[str], None], *, install: bool) -> None:
    """Install the packages of the programs that are missing with apt-get. `install`: whether the caller permits that."""
    packages = missing(programs)
    if not packages:
        return
    reason = obstacle(install=install)
    if reason:
        names = ", ".join(packages)
        raise LabError(f"packages {names}: they are missing and are not installed, because {reason}. {REMEDY}")
    names = " ".join(packages)
    log(f"apt-get: installing {names}")
    remedy = f"Check that apt-get reaches its package sources, or install these packages in another way: {names}"
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"]
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    run([*apt, "update"], what="apt-get update", log=log, remedy=remedy, env=environment)
    command = [*apt, "install", "--no-install-recommends", *packages]
    run(command, what=f"apt-get install {names}", log=log, remedy=remedy, env=environment)
