# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test` has an integration test for each module, playbook, role and program."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.core import CORE, INTEGRATION, in_core, shipped
from tools.paths import ROOT


def test_each_module_playbook_role_and_program_has_core_tests() -> None:
    assert set(CORE) == shipped()
    assert [name for name, tests in CORE.items() if not tests] == []


def test_each_core_test_exists_and_is_not_too_long_for_it() -> None:
    assert [test for tests in CORE.values() for test in tests if not _exists(test)] == []


def test_each_test_file_is_below_a_folder_that_a_target_runs() -> None:
    files = [file.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("test_*.py")]
    assert {file.parts[0] for file in files} == {"style", "unit", "integration", "browser", "image", "molecule"}


def test_a_test_is_in_the_core_by_its_name_or_by_its_file() -> None:
    file = next(test for tests in CORE.values() for test in tests if "::" not in test)
    one = next(test for tests in CORE.values() for test in tests if "::" in test)
    assert in_core(f"tests/integration/{file}::test_any[parameter-1]")
    assert in_core(f"tests/integration/{one}[x]") and not in_core(f"tests/integration/{one}_other")


def _exists(test: str) -> bool:
    """Return True if the file has such a test, or any test, without the marker `full`."""
    file, _, name = test.partition("::")
    functions = _functions(INTEGRATION / file) if (INTEGRATION / file).exists() else {}
    return any(not full for found, full in functions.items() if name in ("", found))


@cache
def _functions(file: Path) -> dict[str, bool]:
    """Return the names of the tests of a file, and which of them have the marker `full`."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    whole = any(isinstance(node, ast.Assign) and "mark.full" in ast.unparse(node) for node in tree.body)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {node.name: whole or any(ast.unparse(mark) == "pytest.mark.full" for mark in node.decorator_list) for node in functions}
