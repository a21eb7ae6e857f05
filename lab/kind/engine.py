# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine. One that works is used as it is; else Debian's dockerd is installed and started, if the caller permits that."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from lab.errors import LabError
from lab.kind import dockerd, packages
from lab.locks import locked

PERMISSION = "KUBE_SCHEDULING_REQUIRE_ENGINE"
REMEDY = f"Start Docker, or permit the lab to install and start one as root: python -m lab kind engine up, or set {PERMISSION}=1."
ANSWER_TIMEOUT_S = 30


def problem() -> str:
    """Return why no engine answers, or an empty text."""
    if shutil.which("docker") is None:
        return "the program docker is missing"
    try:
        result = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False, timeout=ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"docker info has not answered within {ANSWER_TIMEOUT_S} s"
    # A newer client ends with 0 although the server has not answered.
    lines = [line.strip() for line in f"{result.stdout}\n{result.stderr}".splitlines()]
    failures = [line for line in lines if line.startswith(("Cannot connect", "permission denied", "ERROR", "error"))]
    if result.returncode == 0 and not failures:
        return ""
    return failures[0] if failures else f"docker info ends with exit code {result.returncode}"


def permitted() -> bool:
    """Return whether the environment permits the installation and the start of an engine."""
    return os.environ.get(PERMISSION) == "1"


def ensure(log: Callable[[str], None], *, install: bool | None = None) -> None:
    """Return when an engine answers. `install`: whether one may be installed and started (default: as the environment says)."""
    reason = problem()
    if not reason:
        return
    if not (permitted() if install is None else install):
        raise LabError(f"container engine: {reason}. {REMEDY}")
    with locked(dockerd.lock_file(), why="which starts the container engine", log=log):
        if problem():
            packages.install(packages.missing(packages.PROGRAMS | {"docker": "docker.io"}), log)
            dockerd.start(log, lambda: not problem())


def stop(log: Callable[[str], None]) -> None:
    """End the lab's own dockerd with its containers. Another engine is not touched."""
    with locked(dockerd.lock_file(), why="which starts the container engine", log=log):
        log("the lab's dockerd has ended" if dockerd.stop() else "the lab has no dockerd of its own that runs")
