# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Makes random mutants of the code that decides, one change each, and runs the tests that execute the changed lines.

    python -m tools.mutants --seed 7 --number 30
    python -m tools.mutants --seed 7 --number 30 --tier core --tests tests/integration -m core

A mutant that no test finds shows a behaviour that no test checks. The results are lines of JSON in tests/output/mutants.jsonl. An
interrupted run continues there, and a run of another tier takes the mutants that are left. No library is used: mutmut does not know modules
below ansible_collections, and cosmic-ray runs the same tests for each mutant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import typing as t
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import pytest

from tools.errors import ToolError, exit_with
from tools.paths import ENVIRONMENT, ROOT
from tools.working_copy import repository_files, working_copy

SOURCES = "plugins/module_utils/"
FOLDERS = ("spread", "rescue", "scheduler", "operations")
RESULTS = ROOT / "tests/output/mutants.jsonl"
UNIT = ("tests/unit", *(f"--ignore=tests/unit/{name}" for name in ("repository", "tools", "lab", "bench", "soak", "playbooks", "roles")))
LIMIT_S = 3600.0
LINES = "mutants-lines.json"  # the file in the working copy that LineRecorder writes
MONITORING: t.Any = getattr(sys, "monitoring", None)  # Python 3.12 and newer
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPPED |= {ast.Add: ast.Sub, ast.And: ast.Or}
SWAPPED |= {new: old for old, new in SWAPPED.items()}
NO_CODE = ("annotation", "returns", "decorator_list", "type_params")
TEXT_OR_LIST = re.compile("[\"'[]")  # for these, - in place of + is only a wrong type
TEXT_CALLS = re.compile(r"(.*\.)?(Reason|pluralize|message|print|debug|info|warning|\w*[eE]rror|exception)$")


class Mutant(t.NamedTuple):
    """A change of a file: the bytes from ``start`` to ``end`` become ``text``. ``lines``: the numbers of the lines of the statement."""

    file: str
    line: int
    function: str
    operator: str
    before: str
    after: str
    start: int
    end: int
    text: str
    lines: range

    def apply(self, source: bytes) -> bytes:
        """Return the changed file."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(file: str, source: bytes) -> Iterator[Mutant]:
    """Yield all mutants of a file. Texts for people, annotations, decorators and ``__slots__`` have none."""
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]

    def walk(node: ast.AST, names: tuple[str, ...], lines: range) -> Iterator[Mutant]:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            lines = range(node.lineno, max(node.lineno, body[0].lineno - 1 if body else node.end_lineno or 0) + 1)
        for operator, place, text in _changes(node):
            first, last = place.lineno - 1, (place.end_lineno or 0) - 1
            start, end = starts[first] + place.col_offset, starts[last] + (place.end_col_offset or 0)
            before = source[starts[first] : starts[first + 1]].decode().strip()
            after = (source[starts[first] : start].decode() + text + source[end : starts[last + 1]].decode()).strip()
            yield Mutant(file, place.lineno, ".".join(names), operator, before, after, start, end, text, lines)
        inner = (*names, node.name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else names
        for child in _children(node):
            yield from walk(child, inner, lines)

    yield from walk(ast.parse(source), (), range(1))


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the changes of one node: the operator, the part that is replaced, and the new text."""
    match node:
        case ast.Compare() | ast.BoolOp() | ast.BinOp() | ast.AugAssign():
            operator = node.ops[0] if isinstance(node, ast.Compare) else node.op
            if type(operator) in SWAPPED and not (isinstance(operator, ast.Add) and TEXT_OR_LIST.search(ast.unparse(node))):
                other, new = copy.copy(node), SWAPPED[type(operator)]()
                vars(other).update({"ops": [new, *node.ops[1:]]} if isinstance(node, ast.Compare) else {"op": new})
                text = ast.unparse(other)
                yield f"{type(operator).__name__} swapped", node, text if isinstance(node, ast.stmt) else f"({text})"
        case ast.UnaryOp(op=ast.Not()):
            yield "not removed", node, f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)):
            yield f"{value} swapped", node, str(not value)
        case ast.Constant(value=int(value)):
            yield from ((f"constant {change:+}", node, f"({value + change})") for change in (1, -1))
        case ast.Return(value=ast.expr() as result) if ast.unparse(result) != "None":
            yield "return None", node, "return None"
        case ast.Expr(value=ast.Call(func=function)) if not TEXT_CALLS.match(ast.unparse(function)):
            yield "call removed", node, "pass"
        case ast.If() | ast.IfExp() | ast.While() | ast.comprehension():
            tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
            values = ("False",) if isinstance(node, ast.While) else ("True", "False")  # an endless loop would only cost time
            yield from ((f"condition {value}", test, value) for test in tests for value in values)


def _children(node: ast.AST) -> Sequence[ast.AST]:
    """Return the parts of a node that have mutants."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]):
            return []
        case ast.Call(func=function) if TEXT_CALLS.match(ast.unparse(function)):
            return []
        case ast.ClassDef():
            return node.body
    fields = [value if isinstance(value, list) else [value] for name, value in ast.iter_fields(node) if name not in NO_CODE]
    return [child for children in fields for child in children if isinstance(child, ast.AST)]


def draw(root: Path, *, seed: int, number: int) -> list[Mutant]:
    """Return random mutants of the folders."""
    files = [file for folder in FOLDERS for file in sorted((root / SOURCES / folder).rglob("*.py"))]
    sources = {str(file.relative_to(root)): file.read_bytes() for file in files}
    mutants = [mutant for name, source in sources.items() for mutant in mutants_of(name, source)]
    return random.Random(seed).sample(mutants, number)


class LineRecorder:
    """A plugin of pytest that writes the lines and the seconds of each test file. The lines that an import executes have the file ""."""

    def __init__(self) -> None:
        self._file = ""
        self._lines: defaultdict[str, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._seconds, self._failed = defaultdict[str, float](float), set[str]()
        MONITORING.use_tool_id(MONITORING.COVERAGE_ID, "mutants")
        MONITORING.register_callback(MONITORING.COVERAGE_ID, MONITORING.events.LINE, self._add_line)
        MONITORING.set_events(MONITORING.COVERAGE_ID, MONITORING.events.LINE)

    def _add_line(self, code: t.Any, line: int) -> object:
        _, found, name = code.co_filename.rpartition(f"/{SOURCES}")
        if found:
            self._lines[SOURCES + name][line].add(self._file)
        return MONITORING.DISABLE

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Begin with the lines of another test file."""
        if nodeid.partition("::")[0] != self._file:
            self._file = nodeid.partition("::")[0]
            MONITORING.restart_events()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the seconds. A file that has failed without a mutant tells nothing."""
        self._seconds[self._file] += report.duration
        self._failed.update([self._file] if report.failed else [])

    def pytest_unconfigure(self) -> None:
        """Write the file."""
        lines = {name: {line: sorted(files - self._failed) for line, files in found.items()} for name, found in self._lines.items()}
        Path(LINES).write_text(json.dumps({"lines": lines, "seconds": self._seconds, "failed": sorted(self._failed)}), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record the lines in a pytest that has this module as a plugin."""
    config.pluginmanager.register(LineRecorder())


def chosen_tests(mutant: Mutant, executed: t.Any) -> list[str]:
    """Return the test files that execute the lines of a mutant. First come those whose folders have its names, and the quick ones."""
    lines, parts = executed["lines"].get(mutant.file, {}), set(re.split(r"[/.]", mutant.file))
    found = {file for number in mutant.lines for file in lines.get(str(number), ())}
    found.update(*lines.values() if "" in found else ())  # an import executes them for all tests
    return sorted(found - {""}, key=lambda file: (-len(parts & set(re.split(r"/test_|[/.]", file))), executed["seconds"][file]))


def first_failure(root: Path, arguments: Sequence[str], limit_s: float) -> str:
    """Run pytest in a working copy, and return the first test that fails, or an empty text. A run that does not end has failed."""
    command = ["timeout", "--foreground", "--signal=KILL", f"{limit_s:.0f}", ".venv/bin/python", "-m", "pytest", "-q", *arguments]
    variables = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{root}/.venv/bin:{os.environ['PATH']}"}
    # A file and no pipe, which a program that is left over could keep open.
    with (root / "pytest.log").open("w+", encoding="utf-8") as file:
        code = subprocess.run(command, cwd=root, env=variables, stdout=file, stderr=subprocess.STDOUT, check=False).returncode
    output = (root / "pytest.log").read_text("utf-8")
    if code == 4:
        raise ToolError(f"pytest refuses {' '.join(arguments)}: {output[-1000:]}")
    if code in (-15, 143):
        raise ToolError("pytest was stopped by SIGTERM. Run the same command again: it continues.")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return "" if code in (0, 5) else failed[1] if failed else f"exit code {code} (limit: {limit_s:.0f} s)"  # 5: no tests


def executed_lines(root: Path, kept: Path) -> t.Any:
    """Return what LineRecorder writes for all unit tests, from the file of an earlier run if it exists."""
    if not kept.exists():
        if failed := first_failure(root, ["-p", "tools.mutants", *UNIT], LIMIT_S):
            raise ToolError(f"the unit tests fail without a mutant: {failed}")
        shutil.move(root / LINES, kept)
    return json.loads(kept.read_text("utf-8"))


def main() -> int:
    """Try the mutants that have no result yet, and print what is left of them."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description="Try random mutants of the code that decides.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--tier", default="unit", help="the name of the tests, in the results")
    parser.add_argument("--tests", nargs=argparse.REMAINDER, help="arguments of pytest (default: unit tests with the changed lines)")
    options = parser.parse_args()
    if options.tests and options.tier == "unit":
        raise ToolError("--tests needs another --tier than unit, the name of the unit tests with the changed lines")
    if MONITORING is None:
        raise ToolError("Python 3.12 or newer is needed: run make env BASE_PYTHON=/path/to/python3.13")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    rows = map(json.loads, RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else ())
    results = {tuple(row["key"]): row for row in rows}
    with working_copy() as root:
        state = hashlib.sha256(b"".join((root / name).read_bytes() for name in repository_files() if name.suffix == ".py")).hexdigest()[:12]
        shutil.copytree(ENVIRONMENT, root / ".venv", symlinks=True)
        mutants = {(state, options.seed, n): one for n, one in enumerate(draw(root, seed=options.seed, number=options.number))}
        for key, mutant in mutants.items():
            row = results.setdefault(key, {"key": key, "killed_by": "none", "tiers": []})
            if row["killed_by"] != "none":
                continue
            if options.tier in row["tiers"]:
                print(f"{key[-1]:3} none  {mutant.file}:{mutant.line} {mutant.operator}: {mutant.after} (result of an earlier run)")
                continue
            row |= dict(zip(mutant._fields[:6], mutant, strict=False))
            tests, limit_s = options.tests, LIMIT_S
            if not tests:
                executed = executed_lines(root, RESULTS.with_name(f"mutants-lines-{state}.json"))
                tests = chosen_tests(mutant, executed)
                limit_s = 60 + 5 * sum(executed["seconds"][file] for file in tests)
            path, source = root / mutant.file, (root / mutant.file).read_bytes()
            path.write_bytes(mutant.apply(source))
            failed = first_failure(root, ["-x", *tests], limit_s) if tests else ""
            path.write_bytes(source)
            row |= {"killed_by": options.tier if failed else "none", "test": failed, "tests": tests, "tiers": [*row["tiers"], options.tier]}
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{key[-1]:3} {row['killed_by']:5} {mutant.file}:{mutant.line} {mutant.operator}: {failed or mutant.after}", flush=True)
    print(", ".join(f"{name}: {number}" for name, number in Counter(results[key]["killed_by"] for key in mutants).items()))
    return 0


if __name__ == "__main__":
    exit_with(main, "mutants")
