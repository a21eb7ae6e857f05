# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The results of all modules use one meaning and one type for each key, and every reason has a text."""

from __future__ import annotations

import ast
import typing as t
from collections.abc import Iterator, Mapping

from tests.style.sources import report, tree
from tests.unit.support.documented_results import MODULES, differences, documentation

PLUGINS = MODULES.parent
UTILS = PLUGINS / "module_utils"
NAMES = sorted(path.stem for path in MODULES.glob("*.py"))
TWO_TYPES = {"nodes": {"dict", "int"}}
"""The design gives this key two types: the counts of the cluster, and the number of nodes that a blocker excludes."""


def documented(fields: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    for key, field in fields.items():
        yield key, field["type"] + (f" of {field['elements']}" if "elements" in field else "")
        yield from documented(field.get("contains") or {})


def test_a_key_has_the_same_type_in_the_results_of_all_modules() -> None:
    types: dict[str, set[str]] = {}
    for module in NAMES:
        for key, kind in documented(documentation(module, "RETURN")):
            types.setdefault(key, set()).add(kind)
    assert len(types) > 20
    assert {key: kinds for key, kinds in types.items() if len(kinds) > 1} == TWO_TYPES


def test_the_samples_have_the_documented_keys_and_types() -> None:
    for module in NAMES:
        samples = {key: field["sample"] for key, field in documentation(module, "RETURN").items()}
        report(differences(module, samples))


def test_the_check_returns_all_options_that_it_uses_under_their_names() -> None:
    options = documentation("k8s_spread_check", "DOCUMENTATION")["options"]
    sample = documentation("k8s_spread_check", "RETURN")["options"]["sample"]
    assert set(options) - set(sample) == {"include_healthy", "include_nodes"}, "these select what is returned, not what is checked"
    assert set(sample) <= set(options)


def reasons() -> Iterator[tuple[str, ast.Call]]:
    """All places that make a Reason. A report has rows of another class with this name."""
    for folder in (*sorted(UTILS.iterdir()), PLUGINS.parent / "services"):
        for file in sorted(folder.rglob("*.py")) if folder.name != "report" else ():
            for node in ast.walk(tree(file)):
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Reason":
                    yield f"{file.relative_to(PLUGINS.parent)}:{node.lineno}", node


def test_every_reason_has_a_text() -> None:
    places = list(reasons())
    assert len(places) > 160
    report(f"{place}: the reason has no text, or an empty one" for place, call in places if _has_no_text(call))


def _has_no_text(call: ast.Call) -> bool:
    text = call.args[1] if len(call.args) > 1 else next((one.value for one in call.keywords if one.arg == "text"), None)
    return text is None or (isinstance(text, ast.Constant) and not text.value)
