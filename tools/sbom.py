# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the list of the libraries in the image of the services, as CycloneDX. It does not list the packages of the base image."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

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
    components = json.loads(file.read_text(encoding="utf-8")).get("components", [])
    listed = {(component["name"], component["version"]) for component in components if component.get("hashes") or _has_hashes(component)}
    if missing := sorted(" ".join(library) for library in pinned() - listed):
        raise ToolError(f"{file} does not have all libraries of {LOCK.name} with their hashes: {', '.join(missing)}")


def pinned() -> set[tuple[str, str]]:
    """Return the names and versions of all libraries in the image."""
    return set(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE))


def _has_hashes(component: dict[str, Any]) -> bool:
    return any(reference.get("hashes") for reference in component.get("externalReferences", []))


if __name__ == "__main__":
    exit_with(main, "make sbom")
