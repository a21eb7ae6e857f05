# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small base image with Debian's Python, made by debootstrap. It stands for the Python image of a registry where none can be pulled."""

from __future__ import annotations

from collections.abc import Callable

from lab.debian_image import DebianImage
from lab.kind import debootstrap, packages

PYTHON = "3.11"
"""The Python of the release of debootstrap."""

IMAGE = DebianImage(
    name=f"kube-scheduling.lab/python:{PYTHON}",
    release=debootstrap.RELEASE,
    packages=("python3", "ca-certificates"),
    unneeded=(
        *("var/cache/apt/*", "var/lib/apt/lists/*", "var/lib/dpkg/info", "var/log/*"),
        *("usr/share/man", "usr/share/doc", "usr/share/locale", "usr/share/info"),
    ),
)


def ensure(log: Callable[[str], None]) -> str:
    """Import the image into the container engine if it has none, and return the name."""
    return IMAGE.ensure(log, install=packages.permitted())
