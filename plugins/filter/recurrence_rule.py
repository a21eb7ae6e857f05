# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: recurrence_rule
short_description: Return a schedule of AWX for an interval in minutes
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes a recurrence rule (RFC 5545) for C(rrule) of a schedule. It has one C(DTSTART) with a time zone, and one or more C(RRULE).
  - The same values always make the same text.
options:
  _input:
    description: The interval in minutes, from 1 to 1440.
    type: int
    required: true
  windows:
    description: >-
      The maintenance windows in which the jobs start, such as V(Mon-Fri 22:00-05:00 Europe/Berlin), as in the annotation
      C(kube-scheduling.onprem/window). All windows have the same time zone. Without them, the jobs start all the time.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show a schedule for nights
  ansible.builtin.debug:
    msg: "{{ 30 | onprem.kube_scheduling.recurrence_rule('Mon-Fri 22:00-05:00 Europe/Berlin') }}"
"""

RETURN = r"""
_value:
  description: The schedule.
  type: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.job_templates.recurrence import build_rule
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import NoTimeZonesError


def recurrence_rule(every_minutes, windows=""):
    """Return the schedule. Raises AnsibleFilterError for a window that cannot be read, and for an interval that is not possible."""
    try:
        return build_rule(int(every_minutes), str(windows or ""))
    except (ValueError, NoTimeZonesError) as error:
        raise AnsibleFilterError(f"recurrence_rule: {error}") from error


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"recurrence_rule": recurrence_rule}
