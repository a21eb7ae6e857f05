# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes services/requirements.txt: the exact libraries of the image of the services, with the hashes of their wheels.

pip resolves the requirements for each Python and architecture that an image may have, and chooses the wheels.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.services.image_context import BUILD_LOCK, LOCK, MACHINES, pip_target
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.progress import run_with_heartbeat
from tools.errors import ToolError, exit_with
from tools.paths import ROOT
from tools.venvs import REQUIREMENTS_REMEDY

INPUTS = (ROOT / "requirements.txt", ROOT / "services" / "extender" / "requirements.txt")
CONSTRAINTS = ROOT / "tools" / "constraints.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

LEFT_OUT = {
    "jinja2": "only Ansible renders templates",
    "kubernetes": "only a kubeconfig with an exec plugin or an auth provider needs it, and the image has no such plugin",
}
"""Requirements of the collection that the image does not have, and the reasons."""

INSTALLER = "pip==26.3"
"""The pip that installs the wheels in the first stage of the build. It is not in the image."""

HEAD = """\
# {what}
# `make image-lock` writes this file from {sources}.
"""


def main() -> int:
    names = " and ".join(str(file.relative_to(ROOT)) for file in (*INPUTS, CONSTRAINTS))
    LOCK.write_text(rendered("The libraries of the image of the services, with the hashes of their wheels.", names, _locked(required())))
    own = str(Path(__file__).relative_to(ROOT))
    BUILD_LOCK.write_text(rendered("What the build of the image needs, and the image does not have.", own, _locked([INSTALLER])))
    return 0


def required() -> list[str]:
    """Return the requirements of the image's programs."""
    lines = [line for file in INPUTS for line in file.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [line for line in lines if canonicalize_name(Requirement(line).name) not in LEFT_OUT]


def rendered(what: str, sources: str, locked: Mapping[str, Iterable[str]]) -> str:
    """Return the text of a lock. ``locked`` has the hashes by NAME==VERSION."""
    lines = [HEAD.format(what=what, sources=sources)]
    for pin, hashes in sorted(locked.items()):
        lines.append(" \\\n".join([pin, *(f"    --hash=sha256:{one}" for one in sorted(hashes))]) + "\n")
    return "".join(lines)


def _locked(requirements: list[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for python in PYTHONS:
        for architecture in MACHINES:
            for pin, digest in _resolved(requirements, python, architecture):
                found.setdefault(pin, set()).add(digest)
    names = [pin.partition("==")[0] for pin in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ToolError(f"{', '.join(twice)}: the Pythons {', '.join(PYTHONS)} have different versions: pin one in {CONSTRAINTS.name}")
    return found


def _resolved(requirements: list[str], python: str, architecture: str) -> Iterator[tuple[str, str]]:
    """Yield NAME==VERSION and the SHA-256 sum of each wheel that pip chooses."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed"]
        command += [*pip_target(python=python, architecture=architecture), f"--target={scratch}", f"--report={report}"]
        command += [f"--constraint={CONSTRAINTS}", *requirements]
        result = run_with_heartbeat(command, what=f"resolve for Python {python} on {architecture}", log=print)
        if result.code != 0:
            raise ToolError(f"pip finds no wheels for Python {python} on {architecture}:\n{result.tail(10)}\n{REQUIREMENTS_REMEDY}")
        for one in json.loads(report.read_text())["install"]:
            digest = re.fullmatch(r"[0-9a-f]{64}", one["download_info"]["archive_info"]["hashes"]["sha256"])
            if digest is None:
                raise ToolError(f"pip names no SHA-256 sum of {one['metadata']['name']}: use a package index that serves hashes")
            yield f"{canonicalize_name(one['metadata']['name'])}=={one['metadata']['version']}", digest[0]


if __name__ == "__main__":
    exit_with(main, "make image-lock")
