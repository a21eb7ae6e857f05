# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Makes `.venv`: Python libraries, tools and the collections, as everything else in the Makefile expects them.

Needs only Python and pip. What it builds lies in the cache; `.venv` holds links, so a second run takes an instant.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from lab.progress import end_on_signals
from tools import ansible_core, collections_of_ansible, interpreters, venvs
from tools.errors import exit_with
from tools.paths import COLLECTIONS, ENVIRONMENT, NAME, NAMESPACE, ROOT

REQUIREMENTS = (ROOT / "requirements.txt", ROOT / "services" / "extender" / "requirements.txt", ROOT / "requirements-dev.txt")
CONSTRAINTS = (ROOT / "tools" / "constraints.txt",)
SCRIPTS = ("env", "venvs", "ansible_core", "collections_of_ansible")
INPUTS = (*REQUIREMENTS, *CONSTRAINTS, *(ROOT / "tools" / f"{name}.py" for name in SCRIPTS))
STAMP = ENVIRONMENT / "stamp"
VENV_PARTS = ("bin", "include", "lib", "pyvenv.cfg")


def main() -> int:
    end_on_signals()
    parser = argparse.ArgumentParser(description="Make or renew .venv.")
    parser.add_argument("--python", default=os.environ.get("BASE_PYTHON"), help="interpreter to use (default: search)")
    parser.add_argument("--ansible-core", default=os.environ.get("ANSIBLE_CORE"), help="release, such as 2.18 (default: the newest)")
    options = parser.parse_args()
    stamp = _stamp(options.python, options.ansible_core)
    if _is_current(stamp):
        return 0
    with locked(project_cache_dir() / "env.lock", why="which makes an environment", log=print):
        if not _is_current(stamp):
            _make(options.python, options.ansible_core)
            STAMP.write_text(stamp)
    return 0


def _stamp(wanted: str | None, core: str | None) -> str:
    # The development branch changes each day without a change of the files.
    day = ansible_core.today() if core == ansible_core.DEVEL else ""
    digest = hashlib.sha256("\0".join((wanted or "", core or "", day)).encode())
    for file in INPUTS:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _is_current(stamp: str) -> bool:
    # Existence follows links: the cache or the interpreter may have been removed since.
    collections = [COLLECTIONS / "ansible_collections" / name for name in collections_of_ansible.COLLECTIONS]
    links = (ENVIRONMENT / "bin" / "python", *collections)
    return all(link.exists() for link in links) and STAMP.exists() and STAMP.read_text() == stamp


def _make(wanted: str | None, core: str | None) -> None:
    python = interpreters.choose(wanted)
    version = interpreters.version_of(python)
    print(f"environment: Python {version[0]}.{version[1]} ({python})")
    venv = libraries(python, core)
    collections = collections_of_ansible.ensure(venv / "bin" / "python", version)
    if not STAMP.exists():
        # Made by hand or by another tool, or left half done: links cannot be laid over that.
        _remove(ENVIRONMENT)
    lay_links(ENVIRONMENT, venv, collections)
    print("environment: .venv is ready")


def lay_links(environment: Path, venv: Path, collections: Mapping[str, Path]) -> None:
    """Make a folder ``.venv`` of links to a virtual environment, to the folders of the namespaces, and to this collection."""
    for part in VENV_PARTS:
        _link(environment / part, venv / part)
    links = environment / COLLECTIONS.relative_to(ENVIRONMENT) / "ansible_collections"
    for namespace, folder in collections.items():
        _link(links / namespace, folder)
    _link(links / NAMESPACE / NAME, Path("../../../.."))


def libraries(python: Path, core: str | None) -> Path:
    """Return the virtual environment with all libraries and tools, and with this release of ansible-core. It is made if needed."""
    requirements, constraints = list(REQUIREMENTS), list(CONSTRAINTS)
    if core:
        release = ansible_core.release(core, interpreters.version_of(python))
        print(f"environment: {release.requirement}")
        requirements = ansible_core.requirements_with(release, REQUIREMENTS)
        constraints = ansible_core.requirements_with(release, CONSTRAINTS)
    return venvs.ensure("dev", python, requirements, constraints)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


if __name__ == "__main__":
    exit_with(main, "make env")
