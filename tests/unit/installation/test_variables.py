# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in variables that are compared with an argument spec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.action.check_variables import (
    compared,
    file_mistakes,
    minimum_mistakes,
    settings_mistakes,
    unknown_names,
)

SPEC = {
    "web_name": {"type": "str", "required": True},
    "web_port": {"type": "int", "default": 80},
    "web_ports": {"type": "list", "elements": "int", "default": [80]},
    "web_users": {"type": "list", "elements": "dict", "default": []},
    "web_labels": {"type": "dict", "default": {}},
    "web_color": {"type": "str", "default": "red"},
    "web_word": {"type": "dict"},
}


def checked(converted: tuple[str, ...] = (), **given: Any) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the values, and the mistakes by variable."""
    options = {"minima": {"web_port": 1}, "converted": converted, "secret": ["web_word"]}
    values, found = compared({"web_name": "x"} | {f"web_{name}": value for name, value in given.items()}, SPEC, options, {})
    return values, found


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("port", "81", 81),
        ("ports", [1], [1]),
        ("ports", "", [80]),
        ("word", "", None),
        ("word", None, None),
        ("color", "", ""),
        ("labels", {"a": "b"}, {"a": "b"}),
    ],
)
def test_a_good_value_has_its_type_and_an_empty_answer_of_a_survey_is_unset(name: str, value: Any, expected: Any) -> None:
    values, found = checked(**{name: value})
    assert found == {} and values[f"web_{name}"] == expected


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("port", 0, "web_port is 0: it must be a number, at least 1"),
        ("port", "few", "unable to convert to int"),
        ("port", None, "web_port is null: remove it, or give it a value"),
        ("color", None, "web_color is null: remove it, or give it a value"),
        ("ports", "80", 'web_ports is "80", which is no list: write web_ports: [VALUE] in a file, or give it to -e as JSON'),
        ("users", {}, "web_users is {}, which is no list: write web_users: [{KEY: VALUE}] in a file, or give it to -e as JSON"),
        ("labels", None, "web_labels is null, which is no dictionary: write web_labels: {KEY: VALUE} in a file, or give it to -e as JSON"),
        ("word", "s3cret", "web_word is no dictionary: write web_word: {KEY: VALUE} in a file, or give it to -e as JSON"),
        ("name", "", "missing required arguments: web_name"),
    ],
)
def test_a_wrong_value_is_one_mistake_and_rules_get_the_default(name: str, value: Any, text: str) -> None:
    values, found = checked(**{name: value})
    ((wrong, (sentence,)),) = found.items()
    assert wrong == f"web_{name}" and text in sentence and values[f"web_{name}"] == SPEC[f"web_{name}"].get("default")


def test_a_text_is_allowed_if_a_module_makes_a_list_of_it_and_a_wrong_name_is_kept() -> None:
    assert checked(("web_ports",), ports="80,81")[0]["web_ports"] == [80, 81]
    assert checked(ports="80", port=0)[1].keys() == {"web_ports", "web_port"}


def test_all_mistakes_are_found_at_the_same_time() -> None:
    assert len(checked(port=0, ports="80", users=None, color=None)[1]) == 4


@pytest.mark.parametrize(
    ("names", "sentences"),
    [
        (["web_prots"], ["There is no variable web_prots; the nearest is web_ports."]),
        # The prefix alone does not make names similar.
        (["web_x"], ["There is no variable web_x. The variables are web_name, web_ports."]),
        (
            ["web_nam", "web_x", "web_y"],
            [
                "There is no variable web_nam; the nearest is web_name.",
                "There is no variable web_x, web_y. The variables are web_name, web_ports.",
            ],
        ),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_one(names: list[str], sentences: list[str]) -> None:
    assert list(unknown_names(names, ["web_ports", "web_name"], "web_")) == sentences


@pytest.mark.parametrize(("value", "is_wrong"), [(0, True), ("-1", True), (True, True), ("1", False), ("0s", False), (1.5, False)])
def test_a_number_below_its_minimum_is_a_mistake_and_a_duration_is_none(value: Any, is_wrong: bool) -> None:
    assert bool(minimum_mistakes("web_port", value, 1)) is is_wrong


WRITEABLE, FOREIGN = {"exists": True, "writeable": True}, {"exists": True, "writeable": False}


@pytest.mark.parametrize(
    ("file", "folder", "text"),
    [
        (WRITEABLE | {"isdir": True}, WRITEABLE, "path is b, which is a folder: name a file in it"),
        ({}, {}, "path is b, and there is no folder /a: create it first"),
        ({}, FOREIGN, "path is b, and /a/b cannot be written: name another file"),
        (FOREIGN, WRITEABLE, "path is b, and /a/b cannot be written: name another file"),
        (WRITEABLE, FOREIGN, ""),
        ({}, WRITEABLE, ""),
    ],
)
def test_a_file_that_cannot_be_written_is_a_mistake(file: dict[str, bool], folder: dict[str, bool], text: str) -> None:
    assert file_mistakes("path", "b", Path("/a/b"), file, folder) == [text] * bool(text)


def test_settings_that_the_role_decides_are_named_with_its_variable() -> None:
    (found,) = settings_mistakes("rebalancer", "web_settings", {"context": "x", "interval": 1}, "web_")
    assert found.startswith("web_settings has context: remove it, because ") and "web_context is the context of the role" in found
    (found,) = settings_mistakes("rescuer", "web_settings", {"intervall": 1}, "web_")
    assert found.startswith("web_settings: intervall is not a setting"), found
