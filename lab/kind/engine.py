# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container engine. One that works is used as it is; else Debian's dockerd is installed and started, if the caller permits that."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

from lab.errors import LabError
from lab.kind import dockerd, packages
from lab.locks import locked

REMEDY = f"Start Docker, or permit the lab to install and start one as root: python -m lab kind engine up, or set {packages.PERMISSION}=1."
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


def ensure(log: Callable[[str], None], *, install: bool | None = None) -> bool:
    """Return when an engine answers. The result is True if this call has started it.

    `install`: whether one may be installed and started (default: as the environment says).
    """
    reason = problem()
    if not reason:
        return False
    if not (packages.permitted() if install is None else install):
        raise LabError(f"container engine: {reason}. {REMEDY}")
    with locked(dockerd.lock_file(), why="which starts the container engine", log=log):
        if not problem():
            return False
        packages.ensure(packages.ENGINE_PROGRAMS, log, install=True)
        dockerd.start(log, lambda: not problem())
    return True


def stop(log: Callable[[str], None]) -> None:
    """End the lab's own dockerd with its containers. Another engine is not touched."""
    with locked(dockerd.lock_file(), why="which starts the container engine", log=log):
        log("the lab's dockerd has ended" if dockerd.stop() else "the lab has no dockerd of its own that runs")
