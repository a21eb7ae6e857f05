# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules by which AWX 24.6.1 accepts surveys, answers and schedules, in our own words.

Their sources are ``could_be_playbook`` in awx/main/utils/ansible.py, ``JobTemplateSurveySpec`` in awx/api/views, ``SurveyJobTemplateMixin``
in awx/main/models/mixins.py, and ``SchedulePreviewSerializer`` in awx/api/serializers.py with ``Schedule.rrulestr`` in
awx/main/models/schedules.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dateutil.rrule

Json = dict[str, Any]

TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": (float, int),
}
"""The type of a default, by the type of the question."""


def is_playbook(file: Path) -> bool:
    """Return whether AWX finds a file of a project as a playbook: a line at the top level has hosts or import_playbook."""
    return (
        file.is_file() and re.search(r"^\s*-?\s*(hosts|(ansible\.builtin\.)?import_playbook):", file.read_text(), re.MULTILINE) is not None
    )


def survey_mistakes(survey: Mapping[str, Any]) -> list[str]:
    """Return the reasons for which AWX does not save a survey."""
    found = [f"{field} is missing, or is no {kind.__name__}" for field, kind in FIELDS.items() if not isinstance(survey.get(field), kind)]
    if found:
        return found
    if not survey["spec"]:
        return ["spec has no question"]
    variables = [question.get("variable") for question in survey["spec"]]
    found += [f"the variable {name} is in two questions" for name in sorted({name for name in variables if variables.count(name) > 1})]
    return found + [f"{question.get('variable')}: {text}" for question in survey["spec"] for text in _question_mistakes(question)]


FIELDS = {"name": str, "description": str, "spec": list}
QUESTION_FIELDS = {"type": str, "question_name": str, "variable": str, "required": bool}


def _question_mistakes(question: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"{field} is missing, or is no {kind.__name__}"
        for field, kind in QUESTION_FIELDS.items()
        if not isinstance(question.get(field), kind)
    )
    kind, default = question.get("type"), question.get("default", "")
    if kind not in TYPES:
        yield f"{kind} is no type of a question"
        return
    if default != "" and not isinstance(default, TYPES[kind]):
        yield f"the default {default!r} has not the type of a {kind}"
    yield from (f"{limit} is no integer" for limit in ("min", "max") if not isinstance(question.get(limit), int | None))
    if kind in ("multiplechoice", "multiselect"):
        chosen = [line for line in str(default).splitlines() if line.strip()]
        if "choices" not in question:
            yield f"a {kind} has no choices"
        elif any(choice not in _choices(question) for choice in chosen):
            yield f"the default {default!r} is not in the choices"
        if kind == "multiplechoice" and len(chosen) > 1:
            yield "a multiplechoice has more than one default"
    if isinstance(default, str) and default.startswith("$encrypted$"):
        yield "the default is a reserved word"


def answer_mistakes(survey: Mapping[str, Any], answers: Mapping[str, Any]) -> list[str]:
    """Return the reasons for which AWX does not start a job, or does not save a schedule, with these answers."""
    return [text for question in survey.get("spec", []) for text in _answer_mistakes(question, answers)]


def _answer_mistakes(question: Mapping[str, Any], answers: Mapping[str, Any]) -> Iterator[str]:
    name, kind = question["variable"], question["type"]
    if name not in answers:
        if question["required"]:
            yield f"{name}: the value is missing"
        return
    value = answers[name]
    if kind in ("text", "textarea", "password"):
        size = len(value) if isinstance(value, str) else None
    elif kind == "integer":
        size = value if type(value) is int else None
    elif kind == "float":
        size = value if type(value) in (int, float) else None
    elif kind == "multiselect":
        if not isinstance(value, list) or any(item not in _choices(question) for item in value):
            yield f"{name}: {value!r} is no list of choices"
        return
    else:
        if value not in _choices(question):
            yield f"{name}: {value!r} is no choice"
        return
    if size is None:
        yield f"{name}: {value!r} has not the type of a {kind}"
    elif question.get("min") not in ("", None) and size < question["min"]:
        yield f"{name}: {value!r} is below the minimum"
    elif question.get("max") not in ("", None) and size > question["max"]:
        yield f"{name}: {value!r} is above the maximum"


def _choices(question: Mapping[str, Any]) -> list[str]:
    choices = question["choices"]
    return choices.splitlines() if isinstance(choices, str) else list(choices)


def job_variables(template_variables: Mapping[str, Any], survey: Mapping[str, Any], answers: Mapping[str, Any]) -> Json:
    """Return the variables of a job: those of the template, then the valid defaults of the survey, then the answers."""
    defaults = {
        question["variable"]: question["default"]
        for question in survey.get("spec", [])
        if question.get("default") is not None and not list(_answer_mistakes(question, {question["variable"]: question["default"]}))
    }
    return {**template_variables, **defaults, **answers}


def schedule_mistakes(rrule: str) -> list[str]:
    """Return the reasons for which AWX does not save a schedule."""
    starts = re.findall(r"DTSTART(?:;[^:\s]+)?:[0-9]+T[0-9]+Z?", rrule)
    rules = [part for part in rrule.split() if part.upper().startswith("RRULE:")]
    found = []
    if len(starts) != 1:
        found.append(f"it has {len(starts)} DTSTART, and must have one")
    if not rules:
        found.append("it has no RRULE")
    found += [f"it has {word}" for word in ("EXDATE", "RDATE") if f"{word}:" in rrule.upper()]
    for rule in rules:
        parts = dict(part.split("=", 1) for part in rule.partition(":")[2].split(";"))
        if "INTERVAL" not in parts:
            found.append(f"{rule} has no INTERVAL")
        if parts.get("FREQ") == "SECONDLY":
            found.append(f"{rule} has the frequency SECONDLY")
        if re.match(r"[0-9]+[A-Z]{2}", parts.get("BYDAY", "")):
            found.append(f"{rule} has a number in BYDAY")
        if {"COUNT", "UNTIL"} <= set(parts):
            found.append(f"{rule} has COUNT and UNTIL")
        if int(parts.get("COUNT", 0)) > 999:
            found.append(f"{rule} has a COUNT above 999")
    try:
        parsed = dateutil.rrule.rrulestr(rrule, forceset=True)
    except ValueError as error:
        return [*found, str(error)]
    if any(rule._dtstart.tzinfo is None for rule in parsed._rrule):
        found.append("DTSTART has no time zone")
    return found
