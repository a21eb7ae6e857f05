# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Only the methods of RescueTask write its fields, so that task.py has every transition of a rescue."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.style.sources import FILES, tree
from tools.paths import ROOT

TASK = ROOT / "plugins" / "module_utils" / "operations" / "rescue" / "task.py"
FOLDERS = ("plugins/module_utils/operations/rescue/", "plugins/modules/", "services/")
"""The folders whose code has tasks."""
SOURCES = [ROOT / file for file in FILES if file.suffix == ".py" and file.as_posix().startswith(FOLDERS)]
WRITING_METHODS = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}


def fields_of_tasks() -> set[str]:
    """The names of the fields of RescueTask."""
    classes = (node for node in tree(TASK).body if isinstance(node, ast.ClassDef))
    (task,) = (node for node in classes if node.name == "RescueTask")
    return {node.target.id for node in task.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}


def written(node: ast.AST) -> ast.expr | None:
    """The attribute that this node assigns, deletes, or changes in place. The attributes of ``self`` are those of another class."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING_METHODS:
        return node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.value
    return node if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)) else None


def writes(source: ast.Module, fields: set[str]) -> Iterator[str]:
    """The writes to these fields of another object than ``self``, also by ``setattr``."""
    for node in ast.walk(source):
        target = written(node)
        if isinstance(target, ast.Attribute) and target.attr in fields and ast.unparse(target.value) != "self":
            yield f"line {target.lineno}: {ast.unparse(target)}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "object.__setattr__"):
            names = {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
            if names & fields:
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_only_the_class_of_rescue_tasks_writes_their_fields() -> None:
    fields = fields_of_tasks()
    found = {str(file.relative_to(ROOT)): list(writes(tree(file), fields)) for file in SOURCES if file != TASK}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "planted",
    [
        "task.stage = 'ended'",
        "task.stage, other = 'ended', 1",
        "one.retry_at_s = two.plan_at_s = 0.0",
        "task.failed_nodes += 1",
        "self.tasks[uid].hold = None",
        "task.pod: object = None",
        "del task.hold",
        "task.grace_ends_at_s[uid] = 1.0",
        "del task.uncertain_evictions[uid]",
        "task.evicted.append(victim)",
        "task.grace_ends_at_s.update({})",
        "task.waits = other.waits",
        "for task.node in (): pass",
        "setattr(task, 'node', '')",
    ],
)
def test_a_planted_write_to_a_field_of_a_task_is_found(planted: str) -> None:
    assert len(list(writes(ast.parse(planted), fields_of_tasks()))) >= 1


@pytest.mark.parametrize("harmless", ["self.hold = hold", "task.start('n')", "x = task.hold", "stage = task.stage", "print(task.node)"])
def test_reads_calls_and_the_fields_of_other_classes_are_no_writes(harmless: str) -> None:
    assert list(writes(ast.parse(harmless), fields_of_tasks())) == []
