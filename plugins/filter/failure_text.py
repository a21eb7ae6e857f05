# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: failure_text
short_description: Return the reason for which a task has failed
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - The reason is the message of the module. The message of a command, or of a module that has crashed, has no reason. Then the
    reason is the end of what it has written to standard error.
  - The message of a loop has no reason either. Then the reasons are those of its failed items, one in a line.
options:
  _input:
    description: The result of the task, such as C(ansible_failed_result) in a rescue block.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Keep the error
  ansible.builtin.set_fact:
    error: "{{ ansible_failed_result | onprem.kube_scheduling.failure_text }}"
"""

RETURN = r"""
_value:
  description: The reason, or V(unknown error).
  type: str
"""

WITHOUT_REASON = ("non-zero return code", "MODULE FAILURE")
LINES = 3


def failure_text(result):
    """Return the reason in the result of a task, or the reasons of the failed items of a loop."""
    failed = [item for item in result.get("results") or [] if item.get("failed") or item.get("unreachable")]
    return "\n".join(dict.fromkeys(_reason(item) for item in failed or [result]))


def _reason(result):
    message = str(result.get("msg") or "").strip()
    if message and not message.startswith(WITHOUT_REASON):
        return message
    lines = str(result.get("stderr") or "").strip().splitlines()[-LINES:]
    # The last line of a traceback is the error.
    lines = lines or str(result.get("module_stderr") or "").strip().splitlines()[-1:]
    return "\n".join(lines) or message or "unknown error"


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"failure_text": failure_text}
