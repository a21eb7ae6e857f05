# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: survey_questions
short_description: Return questions of a survey for variables of an argument spec
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes the questions of a job template of AWX. The types, choices, limits and defaults are those of the argument spec.
  - No question requires an answer, so the job can be scheduled.
  - An option of the type C(bool) has the choices V(true) and V(false). An option of the type C(int) without a default is a text, because
    AWX refuses an empty answer for a number.
  - A list without choices is a text with one entry a line. The name of its variable has the prefix C(survey_). The playbook of the job
    template makes a list of it with P(onprem.kube_scheduling.text_lines#filter).
options:
  _input:
    description: The options of the argument spec, by name.
    type: dict
    required: true
  names:
    description: The names of the variables, in the order of the questions.
    type: list
    elements: str
    required: true
  minima:
    description: The lowest values of the numbers, by name. The lowest value of another number is V(0).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show a question
  ansible.builtin.debug:
    msg: "{{ options | onprem.kube_scheduling.survey_questions(['web_replicas'], {'web_replicas': 1}) }}"
  vars:
    options:
      web_replicas: {description: The number of replicas., type: int, default: 3}
"""

RETURN = r"""
_value:
  description: The questions, for C(spec) in C(survey_spec) of a job template.
  type: list
  elements: dict
"""

import re

from ansible.errors import AnsibleFilterError

# AWX checks a survey when it is saved (JobTemplateSurveySpec in awx/api/views), and the answers when a job is launched
# (SurveyJobTemplateMixin in awx/main/models/mixins.py). The API refuses an empty text as an answer for a number, so a number without a
# default is a question for a text. It accepts no list except that of a multiselect, so a list is a text with one entry a line.
MAX_TEXT = 1024
MAX_LINES_TEXT = 16384
MAX_NUMBER = 2**31 - 1
MARKUP = {r", see (?=\[)[^.]*": "", r"\[([^\]]+)\]\([^)]*\)": r"\1", r"\b[CVOBIM]\(([^)]*)\)": r"\1", "`": ""}
"""The markup of guides and of argument specs, and what stays of it. AWX shows a description as it is."""


def survey_questions(argument_spec, names, minima=None):
    """Return one question for each name, in this order. Raises AnsibleFilterError for a variable that a survey cannot ask for."""
    for name in names:
        if name not in argument_spec:
            known = ", ".join(sorted(argument_spec))
            raise AnsibleFilterError(f"survey_questions: the argument spec has no variable {name}; it has {known}")
    return [_question(name, argument_spec[name], (minima or {}).get(name, 0)) for name in names]


def _question(name, option, minimum):
    description = option.get("description", "")
    text = description if isinstance(description, str) else " ".join(description)
    for pattern, kept in MARKUP.items():
        text = re.sub(pattern, kept, text)
    title, text = name.replace("_", " ").capitalize(), text.strip()
    question = {"question_name": title, "question_description": text, "required": False, "variable": name}
    answer = _answer(name, option, minimum)
    if answer["type"] == "textarea":
        question |= {"question_description": f"{text} One entry a line.".strip(), "variable": f"survey_{name}"}
    return question | answer


def _answer(name, option, minimum):
    """Return the type, the limits, the choices and the default of a question."""
    kind, default, choices = option.get("type", "str"), option.get("default"), option.get("choices")
    if kind == "bool":
        return {"type": "multiplechoice", "choices": ["true", "false"], "default": str(bool(default)).lower()}
    if kind == "list" and option.get("elements", "str") == "str":
        limits = {"type": "multiselect", "choices": choices} if choices else {"type": "textarea", "min": 0, "max": MAX_LINES_TEXT}
        return {**limits, "default": "\n".join(default or [])}
    if choices and kind != "list":
        return {"type": "multiplechoice", "choices": [str(choice) for choice in choices], "default": str(default)}
    if kind == "int" and default is not None:
        return {"type": "integer", "min": minimum, "max": MAX_NUMBER, "default": int(default)}
    if kind in ("int", "raw", "str"):
        return {"type": "text", "min": 0, "max": MAX_TEXT, "default": "" if default is None else str(default)}
    what = f"is a list of {option['elements']}" if kind == "list" else f"has the type {kind}"
    raise AnsibleFilterError(f"survey_questions: {name} {what}, for which a survey has no question")


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"survey_questions": survey_questions}
