# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The execution environment of AWX without a container engine: its build context, its requirements, and a virtual environment of these.

An image of it can be built only with a registry. The virtual environment has the same packages: those that `ansible-builder introspect`
lists for the collections, with the versions of awx/requirements.txt, and the ansible-core and the ansible-runner of the definition.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import yaml

from tools import interpreters, venvs
from tools.build import build
from tools.errors import ToolError
from tools.paths import COLLECTIONS, NAME, NAMESPACE, ROOT

FOLDER = ROOT / "awx"
DEFINITION = FOLDER / "execution-environment.yml"
TOOLS = ROOT / "tools" / "requirements-ee.txt"


def definition() -> dict[str, Any]:
    """Return the content of execution-environment.yml."""
    found: dict[str, Any] = yaml.safe_load(DEFINITION.read_text())
    return found


def tool(name: str) -> Path:
    """Return the path of ansible-builder or ansible-navigator, which is installed first if it is missing."""
    return venvs.ensure("ee-tools", interpreters.choose(os.environ.get("BASE_PYTHON")), [TOOLS]) / "bin" / name


def install_collections(folder: Path) -> Path:
    """Build the artifact, and unpack it in the folder beside kubernetes.core, as in the image. Return the folder for collections_path."""
    artifact = build(folder)
    target = folder / "collections" / "ansible_collections"
    with tarfile.open(artifact) as archive:
        archive.extractall(target / NAMESPACE / NAME, filter="data")
    (target / "kubernetes").symlink_to(COLLECTIONS / "ansible_collections" / "kubernetes")
    return target.parent


def introspect(collections: Path) -> dict[str, list[str]]:
    """Return the requirements of the collections in a folder, as ansible-builder combines them with those of the definition."""
    dependencies = definition()["dependencies"]
    excluded = collections.parent / "exclude-bindep.txt"
    excluded.write_text("\n".join(dependencies["exclude"]["system"]) + "\n")
    answer = _run(
        [
            *(str(tool("ansible-builder")), "introspect", str(collections)),
            f"--user-pip={FOLDER / dependencies['python']}",
            f"--user-bindep={FOLDER / dependencies['system']}",
            f"--exclude-bindep-reqs={excluded}",
        ]
    )
    found: dict[str, list[str]] = yaml.safe_load(answer)
    return {kind: [line.partition("#")[0].strip() for line in lines] for kind, lines in found.items()}


def virtual_environment(requirements: list[str], folder: Path) -> Path:
    """Return a virtual environment with these requirements, and with the ansible-core and the ansible-runner of the definition.

    The folder gets the file with all of them.
    """
    dependencies = definition()["dependencies"]
    lines = [*requirements, *(dependencies[name]["package_pip"] for name in ("ansible_core", "ansible_runner"))]
    file = folder / "ee-requirements.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return venvs.ensure("ee", interpreters.choose(os.environ.get("BASE_PYTHON")), [file])


def create_context(folder: Path, artifact: Path) -> Path:
    """Make the build context of the image in the folder. ``artifact`` takes the place of the one in dist/."""
    copied = folder / "definition"
    copied.mkdir()
    changed = definition() | {"additional_build_files": [{"src": str(artifact), "dest": "collections"}]}
    (copied / DEFINITION.name).write_text(yaml.safe_dump(changed))
    for name in ("python", "system"):
        file = changed["dependencies"][name]
        (copied / file).write_text((FOLDER / file).read_text())
    _run([str(tool("ansible-builder")), "create", "-f", str(copied / DEFINITION.name), "-c", str(folder / "context")])
    return folder / "context"


def _run(command: list[str]) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"{Path(command[0]).name} {command[1]} failed:\n{answer.stdout}{answer.stderr}")
    return answer.stdout
