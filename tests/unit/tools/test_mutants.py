# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutants change one decision of a file, and the tests of a mutant are those that execute its lines."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Mutant, chosen_tests, draw, first_failure, mutants_of
from tools.paths import ROOT

DECIDING = [*ROOT.glob("plugins/module_utils/spread/prediction/*.py"), *ROOT.glob("plugins/module_utils/rescue/search/*.py")]


def changes(source: str) -> set[tuple[str, str]]:
    return {(mutant.operator, mutant.after) for mutant in mutants_of("one.py", source.encode())}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", {("Lt swapped", "(a <= b)")}),
        ("a >= b", {("GtE swapped", "(a > b)")}),
        ("a == b", {("Eq swapped", "(a != b)")}),
        ("a is not b", {("IsNot swapped", "(a is b)")}),
        ("a not in b", {("NotIn swapped", "(a in b)")}),
        ("a and b", {("And swapped", "(a or b)")}),
        ("not a", {("not removed", "(a)")}),
        ("a + b", {("Add swapped", "(a - b)")}),
        ("a -= b", {("Sub swapped", "a += b")}),
        ("a = 7", {("constant +1", "a = (8)"), ("constant -1", "a = (6)")}),
        ("a = True", {("True swapped", "a = False")}),
        ("a = b if c else d", {("condition True", "a = b if True else d"), ("condition False", "a = b if False else d")}),
        ("a = [b for b in c if d]", {("condition True", "a = [b for b in c if True]"), ("condition False", "a = [b for b in c if False]")}),
        ("a.add(b)", {("call removed", "pass")}),
    ],
)
def test_each_operator_changes_one_place(line: str, expected: set[tuple[str, str]]) -> None:
    assert changes(line) == expected


def test_result_of_a_function_becomes_none() -> None:
    assert changes("def f():\n    return a\n") == {("return None", "return None")}
    assert changes("def f():\n    return None\n") == set()


def test_loop_gets_no_condition_without_an_end() -> None:
    assert changes("while a:\n    b\n") == {("condition False", "while False:")}


@pytest.mark.parametrize(
    "line",
    [
        '"""1 + 1"""',
        'raise ValueError("a", 1)',
        'log.info("a", 1)',
        'a = Reason("code", pluralize(1, "pod"))',
        'a = f"{1}"',
        'a = "b" + c',
        "a = [b] + c",
        '__slots__ = ("a", 1)',
        "a: t.Literal[1]",
        "@cache(1)\ndef f(a: t.Literal[1]) -> t.Literal[1]: ...",
        "class A(B, frozen=True): ...",
    ],
)
def test_text_annotation_or_decorator_has_no_mutant(line: str) -> None:
    assert changes(line) == set()


def test_place_of_a_mutant_is_right_after_letters_of_several_bytes() -> None:
    source = 'def f():\n    a = "ä€"; return b < c\n'.encode()
    [swapped] = [mutant for mutant in mutants_of("one.py", source) if mutant.operator == "Lt swapped"]
    assert swapped.apply(source).decode() == 'def f():\n    a = "ä€"; return (b <= c)\n'
    assert (swapped.line, swapped.function, swapped.after) == (2, "f", 'a = "ä€"; return (b <= c)')


@pytest.mark.parametrize("file", DECIDING, ids=lambda file: file.stem)
def test_mutants_of_a_real_file_compile_and_differ(file: Path) -> None:
    source = file.read_bytes()
    before = ast.dump(ast.parse(source))
    for mutant in list(mutants_of(str(file), source))[::40]:
        changed = mutant.apply(source)
        compile(changed, file, "exec")
        assert ast.dump(ast.parse(changed)) != before, mutant


def test_same_seed_draws_the_same_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "FOLDERS", ("rescue",))
    first = draw(ROOT, seed=3, number=5)
    assert first == draw(ROOT, seed=3, number=5)
    assert first != draw(ROOT, seed=4, number=5)
    assert all(mutant.file.startswith("plugins/module_utils/rescue/") for mutant in first)


def a_mutant(first: int, last: int) -> Mutant:
    return Mutant("plugins/module_utils/spread/a.py", first, "f", "return None", "", "", 0, 0, "", range(first, last + 1))


EXECUTED = {
    "lines": {
        "plugins/module_utils/spread/a.py": {
            "1": [""],
            "2": ["tests/unit/rescue/test_b.py", "tests/unit/spread/test_a.py"],
            "3": ["tests/unit/spread/test_c.py", "tests/unit/spread/test_d.py"],
        }
    },
    "seconds": {
        "tests/unit/rescue/test_b.py": 0.1,
        "tests/unit/spread/test_a.py": 9.0,
        "tests/unit/spread/test_c.py": 3.0,
        "tests/unit/spread/test_d.py": 2.0,
    },
}


def test_test_files_near_the_mutant_and_quick_ones_are_first() -> None:
    names = ["spread/test_a", "spread/test_d", "spread/test_c", "rescue/test_b"]
    assert chosen_tests(a_mutant(2, 3), EXECUTED) == [f"tests/unit/{name}.py" for name in names]


def test_line_that_no_test_executes_has_no_test() -> None:
    assert chosen_tests(a_mutant(4, 5), EXECUTED) == []


def test_line_that_an_import_executes_has_all_tests_of_the_file() -> None:
    assert len(chosen_tests(a_mutant(1, 1), EXECUTED)) == 4


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the environment of this repository, and tests that pass, fail and do not end."""
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra -p no:hypothesispytest -p no:xdist -p no:rerunfailures\n")
    (tmp_path / "test_one.py").write_text("def test_passes(): ...\ndef test_fails(): assert 0\ndef test_hangs():\n    while True: pass\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "limit_s", "expected"),
    [
        (["test_one.py::test_passes"], 60, ""),
        (["test_one.py", "-x"], 60, "test_one.py::test_fails"),
        (["test_one.py", "-k", "nothing"], 60, ""),
        (["test_one.py::test_hangs"], 2, "exit code 137 (limit: 2 s)"),
    ],
)
def test_first_failure_is_named_and_a_test_without_an_end_is_one(copy: Path, arguments: list[str], limit_s: float, expected: str) -> None:
    assert first_failure(copy, arguments, limit_s) == expected
