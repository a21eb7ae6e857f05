# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: text_lines
short_description: Return the lines of a text as a list
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - A template that writes one line for each mistake becomes a list of mistakes.
  - Spaces at both ends of a line are removed. Empty lines are omitted.
options:
  _input:
    description: The text. A template without any text is V(none), which has no lines.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Name the nodes that are cordoned
  ansible.builtin.debug:
    msg: "{{ cordoned | onprem.kube_scheduling.text_lines }}"
  vars:
    cordoned: |
      {% for node in nodes if node.spec.unschedulable | default(false) %}
      {{ node.metadata.name }}
      {% endfor %}
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


def text_lines(text):
    """Return the lines of a text that are not empty, without spaces at both ends."""
    return [line.strip() for line in str(text or "").splitlines() if line.strip()]


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"text_lines": text_lines}
