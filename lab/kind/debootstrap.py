# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a Debian root file system with debootstrap. The nodes and the base of the service image begin with one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.kind import packages
from lab.kind.commands import run

# systemd of a newer release refuses a machine with cgroups of version 1.
RELEASE = "bookworm"
REMEDY = "Check that debootstrap reaches a Debian mirror, then run the same command again."


def make(
    root: Path,
    included: Sequence[str],
    unneeded: Sequence[str],
    log: Callable[[str], None],
    *,
    what: str,
    install: bool,
    release: str = RELEASE,
    alternative: str = "",
) -> None:
    """Make the folder `root` with the minimal system and the packages `included`, and without the files `unneeded`.

    `what`: the name of the result in errors. `install`: whether debootstrap may be installed if it is missing. `alternative`: what a user
    who is not root can do. Raises LabError if this is not root, or if debootstrap fails. An error leaves a part of the folder.
    """
    if os.geteuid() != 0:
        raise LabError(f"{what}: debootstrap needs root: run it as root{alternative}")
    packages.ensure({"debootstrap": "debootstrap"}, log, install=install)
    log(f"{what}: debootstrap {release} with {len(included)} packages, about a minute")
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(included)}", release, str(root)]
    run(command, what=f"debootstrap {release}", log=log, remedy=REMEDY, env={"PATH": packages.PATHS})
    for pattern in unneeded:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
