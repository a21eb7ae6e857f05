# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of AWX find each mistake, so a survey or a schedule that passes them is one that AWX saves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.integration.awx.rules import answer_mistakes, job_variables, schedule_mistakes, survey_mistakes

QUESTION: dict[str, Any] = {
    "type": "text",
    "question_name": "Size",
    "variable": "size",
    "required": False,
    "min": 0,
    "max": 3,
    "default": "",
}
NUMBER = {**QUESTION, "type": "integer", "default": 2}
CHOICE = {**QUESTION, "type": "multiplechoice", "choices": ["a", "b"], "default": "a"}
CHOICES = {**CHOICE, "type": "multiselect", "default": "a\nb"}


def survey_of(*questions: dict[str, Any]) -> dict[str, Any]:
    return {"name": "", "description": "", "spec": list(questions)}


@pytest.mark.parametrize("question", [QUESTION, NUMBER, CHOICE, CHOICES])
def test_a_question_of_each_type_is_accepted(question: dict[str, Any]) -> None:
    assert survey_mistakes(survey_of(question)) == []


@pytest.mark.parametrize(
    ("survey", "text"),
    [
        ({"name": "", "spec": [QUESTION]}, "description is missing"),
        (survey_of(), "spec has no question"),
        (survey_of(QUESTION, QUESTION), "the variable size is in two questions"),
        (survey_of({**QUESTION, "required": "no"}), "required is missing, or is no bool"),
        (survey_of({**QUESTION, "question_name": None}), "question_name is missing"),
        (survey_of({**QUESTION, "type": "list"}), "list is no type of a question"),
        (survey_of({**NUMBER, "default": "2"}), "the default '2' has not the type of a integer"),
        (survey_of({**CHOICES, "default": ["a"]}), r"the default \['a'\] has not the type of a multiselect"),
        (survey_of({**NUMBER, "min": "0"}), "min is no integer"),
        (survey_of({**CHOICE, "default": "c"}), "the default 'c' is not in the choices"),
        (survey_of({**CHOICE, "default": "a\nb"}), "more than one default"),
        (survey_of({**QUESTION, "type": "multiplechoice"}), "a multiplechoice has no choices"),
        (survey_of({**QUESTION, "default": "$encrypted$"}), "a reserved word"),
    ],
)
def test_a_survey_with_a_mistake_is_refused(survey: dict[str, Any], text: str) -> None:
    assert re.search(text, "; ".join(survey_mistakes(survey)))


@pytest.mark.parametrize(
    ("question", "value", "refused"),
    [
        (QUESTION, "abc", False),
        (QUESTION, "abcd", True),
        (QUESTION, 1, True),
        ({**QUESTION, "min": 1}, "", True),
        (NUMBER, 3, False),
        (NUMBER, 4, True),
        (NUMBER, "", True),
        (NUMBER, True, True),
        (CHOICE, "b", False),
        (CHOICE, "", True),
        (CHOICES, ["a"], False),
        (CHOICES, "a\nb", True),
    ],
)
def test_an_answer_outside_of_its_limits_is_refused(question: dict[str, Any], value: Any, refused: bool) -> None:
    assert bool(answer_mistakes(survey_of(question), {"size": value})) is refused


def test_a_required_answer_that_is_missing_is_refused() -> None:
    assert answer_mistakes(survey_of({**QUESTION, "required": True}), {}) == ["size: the value is missing"]


def test_a_job_has_the_valid_defaults_and_the_answers() -> None:
    questions = [{**NUMBER, "variable": "number"}, {**CHOICES, "variable": "choices"}, {**QUESTION, "variable": "text"}]
    questions.append({**NUMBER, "variable": "empty", "default": ""})
    # AWX itself sends no default of a multiselect, and no empty one of a number.
    assert job_variables({"of_template": 1}, survey_of(*questions), {"text": "x"}) == {"of_template": 1, "number": 2, "text": "x"}


START = "DTSTART;TZID=Europe/Berlin:20260101T000000"


@pytest.mark.parametrize(
    ("rrule", "text"),
    [
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=1", ""),
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=1 RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO", ""),
        ("RRULE:FREQ=DAILY;INTERVAL=1", "it has 0 DTSTART"),
        (f"{START} {START} RRULE:FREQ=DAILY;INTERVAL=1", "it has 2 DTSTART"),
        ("DTSTART:20260101T000000 RRULE:FREQ=DAILY;INTERVAL=1", "DTSTART has no time zone"),
        (START, "it has no RRULE"),
        (f"{START} RRULE:FREQ=DAILY", "has no INTERVAL"),
        (f"{START} RRULE:FREQ=SECONDLY;INTERVAL=1", "the frequency SECONDLY"),
        (f"{START} RRULE:FREQ=MONTHLY;INTERVAL=1;BYDAY=2MO", "a number in BYDAY"),
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=1;COUNT=2;UNTIL=20270101T000000Z", "COUNT and UNTIL"),
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=1;COUNT=1000", "a COUNT above 999"),
        (f"{START} RRULE:FREQ=DAILY;INTERVAL=1 EXDATE:20260102T000000Z", "it has EXDATE"),
        (f"{START} RRULE:FREQ=OFTEN;INTERVAL=1", "OFTEN"),
    ],
)
def test_a_schedule_is_refused_for_its_mistake(rrule: str, text: str) -> None:
    found = schedule_mistakes(rrule)
    assert (text in "; ".join(found)) if text else found == []
