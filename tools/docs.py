# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Builds the reference of modules, plugins and roles from their documentation: reStructuredText, then HTML, in docs/build."""

from __future__ import annotations

import shutil
import subprocess
import sys

from tools.errors import ToolError, exit_with
from tools.paths import NAME, NAMESPACE, ROOT

BUILD = ROOT / "docs" / "build"
SETTINGS = ROOT / "tools" / "reference"


def main() -> int:
    shutil.rmtree(BUILD, ignore_errors=True)
    rst = BUILD / "rst"
    rst.mkdir(parents=True)
    collection = f"{NAMESPACE}.{NAME}"
    antsibull = ["antsibull-docs", "--config-file", str(SETTINGS / "antsibull.cfg"), "collection"]
    _run(*antsibull, "--use-current", "--squash-hierarchy", "--fail-on-error", "--dest-dir", str(rst), collection)
    # Warnings are errors, but for references into the documentation of ansible-core, which is not at hand.
    quiet = ["--define", "suppress_warnings=ref.ref,ref.doc"]
    _run(sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", str(SETTINGS), *quiet, str(rst), str(BUILD / "html"))
    print((BUILD / "html" / "index.html").relative_to(ROOT))
    return 0


def _run(*command: str) -> None:
    if subprocess.run(command).returncode != 0:
        raise ToolError(f"{command[0]} failed; its findings are listed above.")


if __name__ == "__main__":
    exit_with(main, "docs")
