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

from datetime import timezone

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import (
    DAY_MINUTES,
    InvalidWindowError,
    NoTimeZonesError,
    parse_windows,
)

# AWX requires exactly one DTSTART with a time zone, one or more RRULE, each with an INTERVAL, and refuses EXDATE, RDATE and the frequency
# SECONDLY (SchedulePreviewSerializer.validate_rrule in awx/api/serializers.py).
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

START = "20260101T000000"
"""The local time of DTSTART. It is fixed, because another one would be a change of the schedule in each run."""


def recurrence_rule(every_minutes, windows=""):
    """Return the schedule. Raises AnsibleFilterError for a window that cannot be read, and for an interval that is not possible."""
    try:
        return _schedule(int(every_minutes), str(windows or ""))
    except (ValueError, NoTimeZonesError) as error:
        raise AnsibleFilterError(f"recurrence_rule: {error}") from error


def _schedule(every_minutes, windows):
    """Return the schedule of a job that starts at the beginning of each maintenance window, and after each interval in it.

    Without windows it starts all the time.
    """
    if not 1 <= every_minutes <= DAY_MINUTES:
        raise ValueError(f"the interval is {every_minutes} minutes: it must be 1 to {DAY_MINUTES}")
    if not windows.strip():
        return f"DTSTART;TZID=UTC:{START} RRULE:FREQ=MINUTELY;INTERVAL={every_minutes}"
    parsed = parse_windows(windows)
    zones = sorted({"UTC" if window.zone is timezone.utc else str(window.zone) for window in parsed})
    if len(zones) > 1:
        raise InvalidWindowError(
            f"the windows have the time zones {', '.join(zones)}, and a schedule has only one; write a schedule for each zone"
        )
    rules = [rule for window in parsed for rule in _rules(window, every_minutes)]
    return f"DTSTART;TZID={zones[0]}:{START} {' '.join(rules)}"


def _rules(window, every_minutes):
    """Return one rule for all hours of a day that have the same minutes."""
    minutes, hours = {}, {}
    for at in range(window.start, window.end, every_minutes):
        day, minute = divmod(at, DAY_MINUTES)
        minutes.setdefault((day, minute // 60), []).append(minute % 60)
    for (day, hour), of_hour in minutes.items():
        hours.setdefault((day, tuple(of_hour)), []).append(hour)
    return [_rule(window, day, same, of_day) for (day, same), of_day in hours.items()]


def _rule(window, days_later, minutes, hours):
    days = [WEEKDAYS[day] for day in sorted((day + days_later) % 7 for day in window.days)]
    parts = {"BYDAY": days, "BYHOUR": hours, "BYMINUTE": minutes, "BYSECOND": [0]}
    # AWX calculates a rule with the frequency HOURLY only from last week on, and a daily one from its beginning.
    return "RRULE:FREQ=HOURLY;INTERVAL=1;" + ";".join(f"{name}={','.join(map(str, values))}" for name, values in parts.items())


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"recurrence_rule": recurrence_rule}
