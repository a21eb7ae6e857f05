# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Schedules of AWX as recurrence rules (RFC 5545), for all the time or only in maintenance windows.

AWX requires exactly one DTSTART with a time zone, one or more RRULE, each with an INTERVAL, and refuses EXDATE, RDATE and the frequency
SECONDLY (``SchedulePreviewSerializer.validate_rrule`` in awx/api/serializers.py).
"""

from __future__ import annotations

import typing as t
from datetime import timezone

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import (
    DAY_MINUTES,
    InvalidWindowError,
    MaintenanceWindow,
    parse_windows,
)

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

START = "20260101T000000"
"""The local time of DTSTART. It is fixed, because another one would be a change of the schedule in each run."""


def build_rule(every_minutes: int, windows: str = "") -> str:
    """Return the schedule of a job that starts again after a number of minutes.

    ``windows`` are maintenance windows as in the annotation. A job then starts at the beginning of each window, and after each interval in
    it. Without them it starts all the time.

    Raise InvalidWindowError, and ValueError for an interval that is not between a minute and a day.
    """
    if not 1 <= every_minutes <= DAY_MINUTES:
        raise ValueError(f"the interval is {every_minutes} minutes: it must be 1 to {DAY_MINUTES}")
    if not windows.strip():
        return f"DTSTART;TZID=UTC:{START} RRULE:FREQ=MINUTELY;INTERVAL={every_minutes}"
    parsed = parse_windows(windows)
    zones = sorted({_zone_name(window) for window in parsed})
    if len(zones) > 1:
        raise InvalidWindowError(
            f"the windows have the time zones {', '.join(zones)}, and a schedule has only one; write a schedule for each zone"
        )
    rules = [rule for window in parsed for rule in _rules(window, every_minutes)]
    return f"DTSTART;TZID={zones[0]}:{START} {' '.join(rules)}"


def _rules(window: MaintenanceWindow, every_minutes: int) -> list[str]:
    """Return one rule for all hours of a day that have the same minutes."""
    minutes: dict[tuple[int, int], list[int]] = {}
    for at in range(window.start, window.end, every_minutes):
        day, minute = divmod(at, DAY_MINUTES)
        minutes.setdefault((day, minute // 60), []).append(minute % 60)
    hours: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for (day, hour), of_hour in minutes.items():
        hours.setdefault((day, tuple(of_hour)), []).append(hour)
    return [_rule(window, day, same, of_day) for (day, same), of_day in hours.items()]


def _rule(window: MaintenanceWindow, days_later: int, minutes: t.Sequence[int], hours: t.Sequence[int]) -> str:
    days = sorted((day + days_later) % 7 for day in window.days)
    parts = {
        "BYDAY": [WEEKDAYS[day] for day in days],
        "BYHOUR": hours,
        "BYMINUTE": minutes,
        "BYSECOND": [0],
    }
    # AWX calculates a rule with the frequency HOURLY only from last week on, and a daily one from its beginning.
    return "RRULE:FREQ=HOURLY;INTERVAL=1;" + ";".join(f"{name}={','.join(map(str, values))}" for name, values in parts.items())


def _zone_name(window: MaintenanceWindow) -> str:
    return "UTC" if window.zone is timezone.utc else str(window.zone)
