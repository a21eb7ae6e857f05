# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs galaxy-importer, the gate of Ansible Galaxy, on the artifact in dist/.

`make sanity` and `make ansible-lint` run the other tools that it would call. Its exit code is 0 even where it could not read a module's
documentation, so its output decides, too.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tools import collections_of_ansible, interpreters, venvs
from tools.errors import ToolError, exit_with
from tools.paths import ROOT

REQUIREMENTS = ROOT / "tools" / "requirements-importer.txt"
SETTINGS = """\
[galaxy-importer]
CHECK_REQUIRED_TAGS = True
RUN_ANSIBLE_TEST = False
RUN_ANSIBLE_LINT = False
"""


def main() -> int:
    artifact = _artifact()
    python = interpreters.choose(os.environ.get("BASE_PYTHON"))
    venv = venvs.ensure("importer", python, [REQUIREMENTS])
    # It finds dependencies beside its own libraries only; without them it reads no documentation.
    site_packages = next(venv.glob("lib/python3*/site-packages"))
    for namespace, folder in collections_of_ansible.ensure(venv / "bin" / "python", interpreters.version_of(python)).items():
        link = site_packages / "ansible_collections" / namespace
        if not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(folder)
    output = _run(venv, artifact)
    print("\n".join(line for line in output.splitlines() if not line.startswith("Loading ")))
    if found := findings(output):
        raise ToolError("\n".join(["galaxy-importer says that the import succeeded, and reports:", *found]))
    return 0


def findings(output: str) -> list[str]:
    """Return the warnings and errors in the output of galaxy-importer, such as documentation that it could not read."""
    return [line for line in output.splitlines() if line.startswith(("WARNING", "ERROR"))]


def _artifact() -> Path:
    found = sorted((ROOT / "dist").glob("*.tar.gz"))
    if not found:
        raise ToolError("there is no artifact in dist/: run `make build` first, or `make importer`, which does both.")
    return found[-1]


def _run(venv: Path, artifact: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "galaxy-importer.cfg"
        settings.write_text(SETTINGS)
        environment = os.environ | {
            "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "GALAXY_IMPORTER_CONFIG": str(settings),
            "NO_COLOR": "1",
        }
        # Not in the repository, whose ansible.cfg would show it the sources instead of the artifact.
        command = [str(venv / "bin" / "python"), "-m", "galaxy_importer.main", str(artifact)]
        answer = subprocess.run(command, cwd=scratch, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if answer.returncode != 0:
        raise ToolError(f"galaxy-importer failed:\n{answer.stdout}")
    return answer.stdout.strip()


if __name__ == "__main__":
    exit_with(main, "importer")
