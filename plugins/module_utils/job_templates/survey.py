# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Surveys of job templates: the questions of AWX for the variables in an argument spec.

AWX checks a survey when it is saved (``JobTemplateSurveySpec`` in awx/api/views), and the answers when a job is launched
(``SurveyJobTemplateMixin`` in awx/main/models/mixins.py). The API refuses an empty text as an answer for a number, so a number without a
default is a question for a text. It accepts no list except that of a multiselect, so a list is a text with one entry a line.
"""

from __future__ import annotations

import re
import typing as t

LINES_PREFIX = "survey_"
"""The prefix of the variable of a question whose text has one entry a line. A playbook makes a list of it."""

MAX_TEXT = 1024
MAX_LINES_TEXT = 16384
MAX_NUMBER = 2**31 - 1

_MARKDOWN_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_ROLE_MARKUP = re.compile(r"\b[CVOBIM]\(([^)]*)\)")
_REFERENCE = re.compile(r", see (?=\[)[^.]*")


class UnknownVariableError(ValueError):
    """The argument spec does not have a variable that a survey asks for, or its type has no question."""


def build_questions(
    argument_spec: t.Mapping[str, t.Mapping[str, t.Any]], minima: t.Mapping[str, int], names: t.Sequence[str]
) -> list[dict[str, t.Any]]:
    """Return one question for each name, in this order. No answer is required, and each default is that of the argument spec.

    Raise UnknownVariableError for a name that is not in the argument spec, or whose type has no question.
    """
    for name in names:
        if name not in argument_spec:
            raise UnknownVariableError(f"the argument spec has no variable {name}; it has {', '.join(sorted(argument_spec))}")
    return [_question(name, argument_spec[name], minima.get(name, 0)) for name in names]


def _question(name: str, option: t.Mapping[str, t.Any], minimum: int) -> dict[str, t.Any]:
    return {
        "question_name": _title(name),
        "question_description": _plain(option.get("description", "")),
        "required": False,
        "variable": name,
        **_answer(name, option, minimum),
    }


def _answer(name: str, option: t.Mapping[str, t.Any], minimum: int) -> dict[str, t.Any]:
    """Return type, limits, choices and default of the question. For a list, also another variable and description."""
    kind, default = option.get("type", "str"), option.get("default")
    if kind == "bool":
        return {"type": "multiplechoice", "choices": ["true", "false"], "default": str(bool(default)).lower()}
    if kind == "list":
        return _list_answer(name, option)
    if "choices" in option:
        return {"type": "multiplechoice", "choices": [str(choice) for choice in option["choices"]], "default": str(default)}
    if kind == "int" and default is not None:
        return {"type": "integer", "min": minimum, "max": MAX_NUMBER, "default": int(default)}
    if kind in ("int", "raw", "str"):
        return {"type": "text", "min": 0, "max": MAX_TEXT, "default": "" if default is None else str(default)}
    raise UnknownVariableError(f"{name} has the type {kind}, for which a survey has no question")


def _list_answer(name: str, option: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    if option.get("elements", "str") != "str":
        raise UnknownVariableError(f"{name} is a list of {option['elements']}, for which a survey has no question")
    default = "\n".join(option.get("default") or [])
    if "choices" in option:
        return {"type": "multiselect", "choices": list(option["choices"]), "default": default}
    description = f"{_plain(option.get('description', ''))} One entry a line."
    answer = {"type": "textarea", "min": 0, "max": MAX_LINES_TEXT, "default": default}
    return {**answer, "question_description": description.strip(), "variable": LINES_PREFIX + name}


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _plain(description: t.Union[str, t.Sequence[str]]) -> str:
    """Return a description without the markup of guides and of argument specs. AWX shows it as it is."""
    text = description if isinstance(description, str) else " ".join(description)
    for pattern, kept in ((_REFERENCE, ""), (_MARKDOWN_LINK, r"\1"), (_ROLE_MARKUP, r"\1")):
        text = pattern.sub(kept, text)
    return text.replace("`", "").strip()
