# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Counts lines of code in the parts whose size has a limit: all lines but comments, docstrings and blank lines.

python -m tools.line_counts
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from .paths import ROOT

EXTENDER, COMMON = ROOT / "services/extender", ROOT / "services/common"
RESCUE = (
    *("plugins/module_utils/rescue", "plugins/module_utils/operations/rescue", "plugins/module_utils/state", "services/rescuer"),
    *("plugins/modules/k8s_critical_rescue.py", "plugins/action/k8s_critical_rescue.py"),
)
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
"""The texts of a module for ansible-doc."""

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}


def code_lines(source: str) -> int:
    """Return the number of lines with code."""
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines.difference(_text_lines(ast.parse(source))))


def _text_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        else:
            is_text = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in DOCUMENTATION
        if is_text and isinstance(node, ast.stmt):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def extender_files() -> list[Path]:
    """Return the files of the extender and of its agents, and the files of services/common that no other program imports."""
    others = [file for file in _python(ROOT / "services") if EXTENDER not in file.parents and COMMON not in file.parents]
    used = _closure(others)
    return [*_python(EXTENDER), *(file for file in _closure(_python(EXTENDER)) if file not in used)]


def rescue_files() -> list[Path]:
    """Return the files of the rescue: its decisions, its execution, its state, and its program."""
    return [file for path in RESCUE for file in _python(ROOT / path)]


def _python(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def _closure(files: Iterable[Path]) -> set[Path]:
    """Return the files of services/common that these files import, and the files that those import."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        for file in _common_imports(waiting.pop()) - found:
            found.add(file)
            waiting.append(file)
    return found


def _common_imports(file: Path) -> set[Path]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {folder.with_suffix(".py"), *(folder / f"{name.name}.py" for name in node.names)}
    return {one for one in found if COMMON in one.parents and one.is_file()}


def main() -> None:
    """Print the counts."""
    for name, files in (("extender", extender_files()), ("rescue", rescue_files())):
        print(f"{name}: {sum(code_lines(file.read_text()) for file in files)} lines of code in {len(files)} files")


if __name__ == "__main__":
    main()
