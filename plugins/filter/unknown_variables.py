# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_variables
short_description: Name the nearest variable in errors about unknown ones
version_added: 1.1.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Replaces the errors of M(ansible.builtin.validate_argument_spec) about unknown names. A name that is similar to a known one
    gets a sentence with the most similar one. The other names get one sentence with the list of all known names.
  - Other errors are unchanged.
options:
  _input:
    description: The errors, as in C(argument_errors) of the result.
    type: list
    elements: str
    required: true
  prefix:
    description: A regular expression for the prefix that the names have in common. It is not compared.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Compare the variables with the argument spec
  ansible.builtin.validate_argument_spec:
    argument_spec: {web_port: {type: int}, web_name: {type: str}}
    provided_arguments: {web_prot: 80}
  register: types
  failed_when: false

- name: Show the errors
  ansible.builtin.debug:
    msg: "{{ types.argument_errors | default([]) | onprem.kube_scheduling.unknown_variables('web_') }}"
"""

RETURN = r"""
_value:
  description: The errors.
  type: list
  elements: str
"""

import re

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.nearest import nearest_name

UNKNOWN = re.compile(r"(.+)\. Supported parameters include: (.*)\.")
"""Ansible's error. A name within a dictionary follows that of the dictionary and a dot."""


def unknown_variables(errors, prefix=""):
    """Return the errors, with sentences in place of those about unknown names."""
    messages = []
    for error in errors:
        found = UNKNOWN.fullmatch(error)
        messages += _sentences(found[1].split(", "), found[2], re.compile(f"^{prefix}")) if found else [error]
    return messages


def _sentences(unknown, listed, prefix):
    known = {prefix.sub("", name): name for name in listed.split(", ")}
    messages, others = [], []
    for name in unknown:
        dictionary, dot, last = name.rpartition(".")
        near = nearest_name(prefix.sub("", last), known)
        if near:
            messages.append(f"There is no variable {name}; the nearest is {dictionary}{dot}{known[near]}.")
        else:
            others.append(name)
    if others:
        messages.append(f"There is no variable {', '.join(others)}. The variables are {listed}.")
    return messages


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"unknown_variables": unknown_variables}
