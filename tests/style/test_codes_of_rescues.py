# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons in the results of a rescue: the guide has every code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lab.layout import REPOSITORY
from tests.style.sources import tree

MODULE_UTILS = REPOSITORY / "plugins" / "module_utils"
RESCUE = (MODULE_UTILS / "rescue", MODULE_UTILS / "operations" / "rescue", MODULE_UTILS / "state" / "rescue_attempts.py")
LEDGER = MODULE_UTILS / "model" / "budgets" / "ledger.py"
"""The reasons of PodDisruptionBudgets."""
BLOCKERS = (MODULE_UTILS / "scheduler", MODULE_UTILS / "model")
"""The filters and the undecodable objects, whose reasons are blockers of a rescue."""


def files_of(places: tuple[Path, ...]) -> list[Path]:
    return [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]


def reasons_in(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason":
            yield node


def constants(files: list[Path]) -> dict[str, str]:
    """Return the values of the constants that are texts, by name."""
    found = {}
    for file in files:
        for node in tree(file).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                found.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return found


def test_the_guide_lists_every_code_of_a_rescue() -> None:
    files = files_of((*RESCUE, LEDGER))
    known = constants([*files, *files_of(BLOCKERS)])
    codes = set()
    for call in (call for file in files for call in reasons_in(file)):
        for part in ast.walk(call.args[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                codes.add(part.value)
            elif isinstance(part, ast.Name) and part.id in known:
                codes.add(known[part.id])
    documented = set(re.findall(r"`([a-z_]+)`", (REPOSITORY / "docs" / "rescue.md").read_text()))
    assert codes >= {"queued", "not_leader", "no_node", "not_on_node", "backoff", "several_budgets"}
    assert codes <= documented, sorted(codes - documented)
