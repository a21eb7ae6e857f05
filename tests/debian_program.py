# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of Debian that single tests start, such as a Pushgateway."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.kind import packages
from tests.not_run import not_run


def debian_program(name: str, folder: Path) -> Path:
    """Return the program, from PATH or from Debian's package of the same name. The package is unpacked in ``folder``, and not installed.

    Without both the test is skipped, or fails under KUBE_SCHEDULING_REQUIRE_ENGINE=1.
    """
    installed = shutil.which(name)
    if installed is not None:
        return Path(installed)
    try:
        if not _download(name, folder) and packages.permitted():
            subprocess.run(["apt-get", "-q", "update"], check=True, capture_output=True)
            _download(name, folder)
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(folder)], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        not_run(f"there is no {name}, and apt-get cannot download it: {error}")
    return folder / "usr" / "bin" / name


def _download(name: str, folder: Path) -> bool:
    return subprocess.run(["apt-get", "-q", "download", name], cwd=folder, capture_output=True).returncode == 0
