# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Write the byte code of the modules that the programs import.

The first stage of the image's build runs it. No byte code can be written in a container, so a module without it is compiled at each start.
It imports each module of the collection, and so finds the modules of the libraries that are needed. The other ones, such as most of
numpy, keep their sources only. A module that cannot be imported ends the build.
"""

from __future__ import annotations

import importlib
import py_compile
import sys
from pathlib import Path

COLLECTION = Path("ansible_collections", "onprem", "kube_scheduling")

ANSIBLE_ONLY = ("plugins/module_utils/kube/client/ansible_connection.py",)
"""Files that import Ansible, which is not in the image. Only Ansible's modules import them."""


def import_all(root: Path) -> None:
    """Import each module of the collection below ``root``, and the libraries' modules that it needs."""
    collection = root / COLLECTION
    for file in sorted(collection.rglob("*.py")):
        if file.relative_to(collection).as_posix() not in ANSIBLE_ONLY:
            importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))


def imported_files(root: Path) -> list[Path]:
    """Return the sources below ``root`` of the modules that are imported."""
    files = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return sorted(file for file in files if file.suffix == ".py" and file.is_relative_to(root))


def compile_all(files: list[Path]) -> None:
    """Write the byte code of the files. Times of files differ from build to build, so it is not checked against them."""
    for file in files:
        py_compile.compile(str(file), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


if __name__ == "__main__":
    libraries = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(libraries))
    import_all(libraries)
    compile_all(imported_files(libraries))
