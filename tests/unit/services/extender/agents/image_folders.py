# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of the extender as a folder, and the instructions of a Containerfile carried out in it, without a container engine.

The folder has a virtual environment in place of the image's Python, and a copy of the files of the collection that a service needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools import service_image
from tools.paths import NAME, NAMESPACE, ROOT

LIBRARIES = "opt/kube-scheduling"
"""The folder of the image that is on PYTHONPATH. services/Containerfile makes it."""

COLLECTION_PARTS = ("services", "plugins/module_utils", "galaxy.yml")


class ImageFolder:
    """An image whose file system is below ``root``."""

    def __init__(self, root: Path) -> None:
        """Make the image of the extender."""
        self._root, self._venv, self._collections = root, root / "venv", root / LIBRARIES
        base = service_image.environment(Path(sys.executable))
        self._wheels = service_image.build_wheels(base / "bin" / "python")
        subprocess.run([base / "bin" / "python", "-m", "venv", "--without-pip", self._venv], check=True)
        # The packages of the base image, which are in the layers below.
        (below,) = base.glob("lib/python3*/site-packages")
        (own,) = self._venv.glob("lib/python3*/site-packages")
        (own / "layer.pth").write_text(f"{below}\n")
        collection = self._collections / "ansible_collections" / NAMESPACE / NAME
        for part in COLLECTION_PARTS:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            (collection / part).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / part, collection / part)

    def build(self, containerfile: str, context: Path, arguments: Mapping[str, str]) -> str:
        """Carry out the instructions of a Containerfile, and return the name of the image below. ``context`` has the files to copy."""
        base = ""
        for line in containerfile.splitlines():
            instruction, _space, rest = line.partition(" ")
            if instruction == "ARG":
                assert rest in arguments, f"--build-arg {rest}=... is missing"
            elif instruction == "FROM":
                base = rest.removeprefix("${").removesuffix("}")
                base = arguments.get(base, base)
            elif instruction == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    shutil.copytree(context / source, self._path(target), dirs_exist_ok=True)
            else:
                raise AssertionError(f"{instruction} is not known here")
        return base

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the image. ``folder``: where it runs, as a folder that is mounted."""
        program, *arguments = command
        path = [str(self._venv / "bin" / program), *arguments]
        return subprocess.run(path, cwd=folder or self._root, env=self.environment, capture_output=True, text=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a process in the image. pip gets wheels for the build from a folder, and needs no package index."""
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self._wheels), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        return {
            "PATH": f"{self._venv / 'bin'}{os.pathsep}{os.defpath}",
            "PYTHONPATH": str(self._collections),
            "HOME": str(self._root),
            **pip,
        }

    @property
    def python(self) -> str:
        """Return the Python of the image."""
        return str(self._venv / "bin" / "python")

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")
