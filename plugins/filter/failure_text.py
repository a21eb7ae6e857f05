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
    reason is the end of what it has written to standard error, or to standard output.
  - The message of a loop has no reason either. Then the reasons are those of its failed items, one in a line.
  - Logins in URLs are removed, as by the filter P(onprem.kube_scheduling.without_logins#filter).
options:
  _input:
    description: The result of the task, such as C(ansible_failed_result) in a rescue block.
    type: dict
    required: true
  lines:
    description: The number of last lines that are taken from what a command has written.
    type: int
    default: 3
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

import os
import re

from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins

# The messages of ansible-core 2.18, and those of 2.19 and later.
WITHOUT_REASON = re.compile(
    r"non-zero return code|^MODULE FAILURE|^Module result deserialization failed|'failed_when' expression evaluated to"
)
BEFORE_REASON = re.compile(r"^((Task|Module|Action) failed: )+")
NOT_STARTED = "Error executing command."


def failure_text(result, lines=3):
    """Return the reason in the result of a task, or the reasons of the failed items of a loop, without logins in URLs."""
    failed = [item for item in result.get("results") or [] if item.get("failed") or item.get("unreachable")]
    return without_logins("\n".join(dict.fromkeys(_reason(item, lines) for item in failed or [result])))


def _reason(result, lines):
    message = BEFORE_REASON.sub("", str(result.get("msg") or "").strip())
    if message == NOT_STARTED:
        return _not_started(result)
    if message and not WITHOUT_REASON.search(message):
        return message
    # The last line of a traceback is the error.
    last = _last_lines(result, "stderr", lines) or _last_lines(result, "module_stderr", 1) or _last_lines(result, "stdout", lines)
    return "\n".join(last) or message or "unknown error"


def _not_started(result):
    """Return the reason for which ansible-core 2.19 or later has not started a program. The exit code is that of the operating system."""
    words, code = str(result.get("cmd") or "").split(), result.get("rc")
    return f"{words[0] if words else NOT_STARTED}: {os.strerror(code) if isinstance(code, int) else code}"


def _last_lines(result, name, number):
    return str(result.get(name) or "").strip().splitlines()[-number:]


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"failure_text": failure_text}
