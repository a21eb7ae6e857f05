# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builds the wheel with kubectl-spread into dist/, out of the files that git knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import interpreters, venvs
from tools.errors import ToolError, exit_with
from tools.paths import ROOT
from tools.working_copy import working_copy

DIST = ROOT / "dist"
REQUIREMENTS = ROOT / "tools" / "requirements-wheel.txt"


def main() -> int:
    for old in DIST.glob("*.whl"):
        old.unlink()
    print(build(DIST).relative_to(ROOT))
    return 0


def build(folder: Path) -> Path:
    """The wheel, made in `folder`, which must not have one yet."""
    python = venvs.ensure("wheel", interpreters.real_path(Path(sys.executable)), [REQUIREMENTS]) / "bin" / "python"
    with working_copy() as copy:
        command = [str(python), "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder.resolve())]
        answer = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"hatchling could not build the wheel:\n{answer.stdout}{answer.stderr}".rstrip())
    return next(folder.glob("*.whl"))


if __name__ == "__main__":
    exit_with(main, "wheel")
