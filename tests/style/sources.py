# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of the repository for the tests of this folder, and the report of what a rule finds in them."""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tools.paths import ROOT
from tools.working_copy import repository_files

FILES = repository_files()
"""The paths are relative to the root."""
PACKAGES = {"yaml": "PyYAML", "oauthlib": "kubernetes"}
"""The package of a library that has another name, or the package that comes with it."""


def report(findings: Iterable[str]) -> None:
    """Fail with one line for each finding. A line names the file."""
    found = list(findings)
    if found:
        pytest.fail("\n".join(found), pytrace=False)


@functools.cache
def internal_modules() -> set[str]:
    """Return the modules for this collection only. Their documentation says it."""
    return {file.stem for file in (ROOT / "plugins" / "modules").glob("*.py") if "This module is internal to" in file.read_text()}


@functools.cache
def tree(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file. Several rules read the product's files."""
    return parsed(file.read_text(encoding="utf-8"))


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a source. It has no circles, so that Python need not search for them, which takes half of the time."""
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def libraries_of(folder: str) -> set[str]:
    """The packages, other than Python and Ansible, that the sources import, anywhere in a file."""
    found = set()
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(tree(file)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found.update(name.partition(".")[0] for name in names)
    others = {name for name in found if name not in sys.stdlib_module_names and not name.startswith("ansible")}
    return {PACKAGES.get(name, name) for name in others}
