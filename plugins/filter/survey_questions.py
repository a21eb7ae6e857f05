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

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.job_templates.survey import UnknownVariableError, build_questions


def survey_questions(argument_spec, names, minima=None):
    """Return the questions. Raises AnsibleFilterError for a variable that a survey cannot ask for."""
    try:
        return build_questions(argument_spec, minima or {}, names)
    except UnknownVariableError as error:
        raise AnsibleFilterError(f"survey_questions: {error}") from error


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"survey_questions": survey_questions}
