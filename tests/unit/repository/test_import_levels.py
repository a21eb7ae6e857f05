# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a folder import each other over few levels, so that a reader of one file has to know few others."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tools.paths import ROOT

MODULE_UTILS = ROOT / "plugins/module_utils"
MAX_LEVELS = {"scheduler": 4, "rescue": 5}


@cache
def imported_by(file: Path, folder: Path) -> frozenset[Path]:
    """The files of the folder that the file imports, also inside functions and for annotations."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)}
    return frozenset(other for other in found if other != file and other.is_relative_to(folder) and other.is_file())


def chain_of(file: Path, folder: Path) -> list[str]:
    """The longest chain of imports from the file."""
    below = max((chain_of(other, folder) for other in sorted(imported_by(file, folder))), key=len, default=[])
    return [str(file.relative_to(folder)), *below]


@pytest.mark.parametrize("name", sorted(MAX_LEVELS))
def test_the_longest_chain_of_imports_in_a_folder_is_short(name: str) -> None:
    folder = MODULE_UTILS / name
    longest = max((chain_of(file, folder) for file in sorted(folder.rglob("*.py"))), key=len)
    assert 1 < len(longest) <= MAX_LEVELS[name], " imports ".join(longest)
