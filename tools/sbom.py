# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the list of the libraries in the image of the services, as CycloneDX. It does not list the packages of the base image."""

from __future__ import annotations

import os
from pathlib import Path

from lab.progress import run_with_heartbeat
from tools import interpreters, venvs
from tools.build import DIST
from tools.errors import ToolError, exit_with
from tools.paths import ROOT

REQUIREMENTS = ROOT / "tools" / "requirements-sbom.txt"
LOCK = ROOT / "services" / "requirements.txt"
FILE = DIST / "services-sbom.cdx.json"


def main() -> int:
    write(FILE)
    print(FILE.relative_to(ROOT))
    return 0


def write(file: Path) -> None:
    """Write the list. The same lock has the same list."""
    venv = venvs.ensure("sbom", interpreters.choose(os.environ.get("BASE_PYTHON")), [REQUIREMENTS])
    file.parent.mkdir(exist_ok=True)
    command = [str(venv / "bin" / "cyclonedx-py"), "requirements", str(LOCK), "--output-reproducible", "--output-file", str(file)]
    result = run_with_heartbeat(command, what="cyclonedx-py", log=print)
    if result.code != 0:
        raise ToolError(f"cyclonedx-py failed:\n{result.tail(10)}")


if __name__ == "__main__":
    exit_with(main, "make sbom")
