# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The questions of a survey have the types, the limits and the defaults of an argument spec."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.filter.survey_questions import MAX_NUMBER, survey_questions

NUMBER = {"type": "integer", "min": 1, "max": MAX_NUMBER, "default": 3}
TEXT = {"type": "text", "min": 0, "max": 1024}


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"type": "int", "default": 3}, NUMBER),
        ({"type": "int"}, {**TEXT, "default": ""}),
        ({"type": "str", "default": "10m"}, {**TEXT, "default": "10m"}),
        ({"type": "str"}, {**TEXT, "default": ""}),
        ({"type": "raw", "default": "100%"}, {**TEXT, "default": "100%"}),
        ({"type": "bool", "default": True}, {"type": "multiplechoice", "choices": ["true", "false"], "default": "true"}),
        ({"type": "bool"}, {"type": "multiplechoice", "choices": ["true", "false"], "default": "false"}),
        ({"type": "str", "choices": ["a", "b"], "default": "b"}, {"type": "multiplechoice", "choices": ["a", "b"], "default": "b"}),
        (
            {"type": "list", "elements": "str", "choices": ["a", "b"], "default": ["a", "b"]},
            {"type": "multiselect", "choices": ["a", "b"], "default": "a\nb"},
        ),
        (
            {"type": "list", "elements": "str", "default": ["a", "b"]},
            {"type": "textarea", "variable": "survey_web_size", "min": 0, "max": 16384, "default": "a\nb"},
        ),
        (
            {"type": "list", "elements": "str"},
            {"type": "textarea", "variable": "survey_web_size", "min": 0, "max": 16384, "default": ""},
        ),
    ],
)
def test_an_option_is_a_question_of_its_type(option: dict[str, Any], expected: dict[str, Any]) -> None:
    (question,) = survey_questions({"web_size": option}, ["web_size"], {"web_size": 1})
    named = {
        "question_name": "Web size",
        "question_description": question["question_description"],
        "required": False,
        "variable": "web_size",
    }
    assert question == {**named, **expected}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("The way, see [Restart](#restart).", "The way."),
        ("Outside of their [window](rebalance.md#windows).", "Outside of their window."),
        ("The annotation. `a=b` means `c`.", "The annotation. a=b means c."),
        (["With V(archive), O(web_image) is C(none).", "It is M(x.y.z)."], "With archive, web_image is none. It is x.y.z."),
    ],
)
def test_a_description_has_no_markup(description: str | list[str], expected: str) -> None:
    (question,) = survey_questions({"web": {"type": "str", "description": description}}, ["web"])
    assert question["question_description"] == expected


def test_the_description_of_a_list_says_that_each_entry_has_a_line() -> None:
    (question,) = survey_questions({"web": {"type": "list", "description": "The names."}}, ["web"])
    assert question["question_description"] == "The names. One entry a line."


def test_the_questions_have_the_order_of_the_names() -> None:
    spec = {name: {"type": "str"} for name in ("a", "b", "c")}
    assert [question["variable"] for question in survey_questions(spec, ["c", "a"])] == ["c", "a"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("typo", "the argument spec has no variable typo; it has deep, pairs"),
        ("deep", "deep has the type dict"),
        ("pairs", "pairs is a list of dict"),
    ],
)
def test_a_variable_without_a_question_is_refused(name: str, text: str) -> None:
    spec = {"deep": {"type": "dict"}, "pairs": {"type": "list", "elements": "dict"}}
    with pytest.raises(AnsibleFilterError, match=f"survey_questions: {text}"):
        survey_questions(spec, [name])
