# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons in the results of a restart: the table of the guide has exactly these codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lab.layout import REPOSITORY
from tests.style.sources import tree

MODULE_UTILS = REPOSITORY / "plugins" / "module_utils"
PLACES = (
    "plugins/module_utils/spread/check.py",
    "plugins/module_utils/spread/verdict.py",
    "plugins/module_utils/spread/preconditions",
    "plugins/module_utils/spread/prediction",
    "plugins/module_utils/spread/topology",
    "plugins/module_utils/spread/restart",
    "plugins/module_utils/spread/eviction",
    "plugins/module_utils/operations/restart",
    "plugins/module_utils/operations/rebalance",
    "plugins/module_utils/model/undecodable.py",
    "services/rebalancer",
)
"""The files and folders whose reasons may be the reason for the action on a workload."""

NOT_ABOUT_A_WORKLOAD = {"too_few_ready_nodes"}
"""Codes of a check that has checked no workload."""

OF_PREDICTIONS = {
    "scoring_does_not_spread",
    "depends_on_ties",
    "depends_on_termination",
    "depends_on_sampling",
    "depends_on_preemption",
    "preempts",
    "depends_on_readiness",
    "depends_on_removal_order",
    "waits_for_lost_pod",
    "waits_for_ready_pod",
    "no_better_spread",
    "not_eligible",
}
"""Codes of blockers that another table of the guide has. The reason of the action is ``no_gain``."""

OF_EVICTIONS = {"scoring_does_not_spread", "depends_on_ties", "depends_on_termination", "depends_on_sampling"}
"""Codes of blockers that are also the reason of an action, because an eviction is skipped for them."""

ALSO_OF_PREDICTIONS = {"pods_differ", "image_size", "foreign_scheduler", "foreign_plugin", "depends_on_extender"}
"""Codes of other files in that table. The guide does not list all other codes of blockers."""

HEADING = "### The reasons of the actions"
HEADING_OF_ADVICE = "### The reasons of the advice"
HEADING_OF_PREDICTIONS = "## How a restart is predicted"


def files() -> list[Path]:
    places = [REPOSITORY / place for place in PLACES]
    return [file for place in places for file in ([place] if place.is_file() else sorted(place.rglob("*.py")))]


def calls_of(name: str, file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == name:
            yield node


def constants() -> dict[str, str]:
    """Return the values of the constants of the features and of the state that are texts, by name."""
    found = {}
    for file in (*files(), *(MODULE_UTILS / "state").glob("*.py"), *(MODULE_UTILS / "spread" / "advice").glob("*.py")):
        for node in tree(file).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                found.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    return found


def codes_in(code: ast.expr, known: dict[str, str]) -> set[str]:
    """Return the codes of an argument: a text, a constant, or one of two of them. A code of another reason is none."""
    if isinstance(code, ast.IfExp):
        return codes_in(code.body, known) | codes_in(code.orelse, known)
    if isinstance(code, ast.Constant):
        return {str(code.value)}
    if isinstance(code, ast.Name) and code.id != "code":
        return {known[code.id]}
    assert (isinstance(code, ast.Attribute) and code.attr == "code") or isinstance(code, ast.Name), ast.dump(code)
    return set()


def documented_codes(heading: str, column: int = 2) -> list[str]:
    """Return the codes in a column of the table in a section of the guide."""
    _before, _heading, section = (REPOSITORY / "docs" / "rebalance.md").read_text().partition(f"\n{heading}\n")
    rows = [line.split("|")[column] for line in section.partition("\n#")[0].splitlines() if line.startswith("|")]
    return [code for row in rows for code in re.findall(r"`([a-z_]+)`", row)]


def test_the_table_of_the_guide_has_exactly_the_codes_of_the_actions() -> None:
    known = constants()
    calls = [call for file in files() for name in ("Reason", "fail_unfinished") for call in calls_of(name, file)]
    codes = {code for call in calls for code in codes_in(call.args[0], known)} - NOT_ABOUT_A_WORKLOAD
    assert codes >= OF_PREDICTIONS
    codes -= OF_PREDICTIONS - OF_EVICTIONS
    assert codes >= {"paused", "on_delete", "outside_window", "undecodable", "no_capacity", "not_begun", "replacement_not_ready"}
    documented = documented_codes(HEADING)
    assert len(documented) == len(set(documented)), "a code is listed twice"
    assert (codes - set(documented), set(documented) - codes) == (set(), set())


def test_the_table_of_predictions_has_exactly_their_codes() -> None:
    assert sorted(documented_codes(HEADING_OF_PREDICTIONS)) == sorted(OF_PREDICTIONS | ALSO_OF_PREDICTIONS)


def test_the_other_codes_in_the_table_of_predictions_exist() -> None:
    texts = [call.args[0] for file in MODULE_UTILS.rglob("*.py") for call in calls_of("Reason", file) if call.args]
    assert {text.value for text in texts if isinstance(text, ast.Constant)} >= ALSO_OF_PREDICTIONS


def test_the_table_of_the_advice_has_exactly_its_codes() -> None:
    known = constants()
    codes = {
        code
        for file in (MODULE_UTILS / "spread" / "advice").glob("*.py")
        for call in calls_of("Reason", file)
        for code in codes_in(call.args[0], known)
    }
    assert sorted(documented_codes(HEADING_OF_ADVICE, column=1)) == sorted(codes)
