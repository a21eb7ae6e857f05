# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The table of transitions is complete, only it changes the state of a rescue, and the page about the architecture shows it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.states import (
    BEFORE_THE_END,
    CLEARING,
    STATES,
    TRANSITIONS,
)

from tests.style.sources import FILES, tree
from tools import tables
from tools.paths import ROOT

FOLDER = ROOT / "plugins" / "module_utils" / "operations" / "rescue"
FOLDERS = ("plugins/module_utils/operations/rescue/", "plugins/modules/", "services/")
"""The folders whose code has tasks."""
SOURCES = [ROOT / file for file in FILES if file.suffix == ".py" and file.as_posix().startswith(FOLDERS)]

_FUNCTIONS = [node for node in ast.walk(tree(FOLDER / "effects.py")) if isinstance(node, ast.FunctionDef)]
EFFECTS = {f"self.{node.name}" if node.args.args[0].arg == "self" else node.name: node for node in _FUNCTIONS}
"""The functions and methods of ``effects.py``, as it calls them."""
RUNS_IN = {
    "task.is_clearing": CLEARING,
    "self.clearing": CLEARING,
    "task.is_plan": ("ended",),
    "not self.tasks[found.uid].is_clearing": ("watched",),  # Holds.reconcile returns no hold of a rescue that has ended
    "_step": BEFORE_THE_END,
    "_step_finished": ("ended",),
}
"""The conditions, loops and functions of the code whose content runs only in some states."""


def writes(source: ast.Module) -> Iterator[int]:
    """The lines that assign the state of a task."""
    for node in ast.walk(source):
        if isinstance(node, ast.Attribute) and node.attr == "stage" and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.lineno


def events(source: ast.AST) -> Iterator[str]:
    """The names of the events that the code makes."""
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Event" and node.args:
            yield from (one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant))


def pairs_of(node: ast.AST, states: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The events that the code makes, also in the functions of ``effects.py`` that it calls, each with the states in which it runs."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    if called == "Event":
        yield from itertools.product(states, events(node))
    elif called in EFFECTS:
        yield from pairs_of(EFFECTS[called], states)
    condition = ast.unparse(node.test if isinstance(node, ast.If) else node.iter) if isinstance(node, (ast.If, ast.For)) else ""
    texts = (getattr(node, "name", ""), *([] if " or " in condition else condition.split(" and ")))
    inside = set(states).intersection(*(RUNS_IN[text] for text in texts if text in RUNS_IN))
    others = node.orelse if isinstance(node, ast.If) else []
    for child in ast.iter_child_nodes(node):
        yield from pairs_of(child, states if child in others else inside)


def needed(controller: str) -> set[tuple[str, str]]:
    """The pairs of state and event that can occur by the effects and the controller."""
    by_effects = {pair for row in TRANSITIONS for pair in pairs_of(EFFECTS[f"self.{row.effect.__name__}"], row.states)}
    return by_effects.union(pairs_of(ast.parse(controller), STATES))


def test_every_event_of_an_effect_or_of_the_controller_has_a_row_in_each_state_in_which_it_can_occur() -> None:
    found = needed((FOLDER / "controller.py").read_text())
    assert found >= {("ended", "unanswered"), ("evicting", "given_up"), ("watched", "hold_found"), ("watched", "failed")}
    assert found - {(state, row.event) for row in TRANSITIONS for state in row.states} == set()


def test_a_second_held_node_of_a_rescue_without_a_check_is_found() -> None:
    planted = (FOLDER / "controller.py").read_text().replace("if not self.tasks[found.uid].is_clearing:", "if True:")
    assert ("evicting", "hold_found") in needed(planted)


def test_only_the_table_changes_the_state_of_a_rescue() -> None:
    found = {str(file.relative_to(ROOT)): list(writes(tree(file))) for file in SOURCES if file != FOLDER / "states.py"}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize("planted", ["task.stage = 'ended'", "a.tasks[uid].stage, b = 1, 2", "del task.stage"])
def test_a_planted_change_of_a_state_is_found(planted: str) -> None:
    assert list(writes(ast.parse(planted))) == [1]


def test_every_event_is_in_the_table_and_every_row_has_an_event() -> None:
    made = {name for file in SOURCES for name in events(tree(file))}
    assert made == {row.event for row in TRANSITIONS}


def test_every_row_begins_and_ends_in_a_state_and_no_event_has_two_rows_in_one() -> None:
    pairs = [(state, row.event) for row in TRANSITIONS for state in row.states]
    assert len(pairs) == len(set(pairs))
    assert {state for state, _event in pairs} == set(STATES)
    assert {row.after for row in TRANSITIONS} - {"", "removed"} == set(STATES)


@pytest.mark.parametrize("event", ["over", "failed", "error", "unanswered"])
def test_a_rescue_can_end_and_fail_in_every_state_before_the_end(event: str) -> None:
    assert {state for row in TRANSITIONS if row.event == event for state in row.states} >= set(BEFORE_THE_END)


def test_every_effect_says_what_it_does() -> None:
    assert all(re.match(r"[A-Z][^\n]+\.(\n|$)", row.effect.__doc__ or "") for row in TRANSITIONS)


def test_the_page_has_the_present_table_and_picture() -> None:
    text = (ROOT / tables.STATES).read_text()
    assert tables.with_states(text) == text, "run `make tables`"
