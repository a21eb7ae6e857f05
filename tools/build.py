# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builds the collection's artifact into dist/, out of the files that git knows."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.errors import ToolError, exit_with
from tools.paths import ENVIRONMENT, ROOT
from tools.working_copy import working_copy

DIST = ROOT / "dist"


def main() -> int:
    for old in DIST.glob("*.tar.gz"):
        old.unlink()
    print(build(DIST).relative_to(ROOT))
    return 0


def build(folder: Path) -> Path:
    """The artifact, made in `folder`, which must not have one yet."""
    with working_copy() as copy:
        command = [str(ENVIRONMENT / "bin" / "ansible-galaxy"), "collection", "build", "--output-path", str(folder), str(copy)]
        answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"ansible-galaxy collection build failed:\n{answer.stdout}{answer.stderr}".rstrip())
    return next(folder.glob("*.tar.gz"))


if __name__ == "__main__":
    exit_with(main, "build")
