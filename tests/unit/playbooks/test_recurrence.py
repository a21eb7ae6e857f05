# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A recurrence rule has exactly the times of its interval in the maintenance windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import dateutil.rrule
import dateutil.tz
import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.filter.recurrence_rule import recurrence_rule
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import is_inside, parse_windows

from tests.integration.awx.rules import schedule_mistakes

TWO_WEEKS = timedelta(days=14)
NIGHTS = "Mon-Fri 22:00-05:00 Europe/Berlin"


def times_of(rule: str, zone: str, since: datetime) -> list[datetime]:
    start = since.replace(tzinfo=ZoneInfo(zone))
    found = dateutil.rrule.rrulestr(rule, forceset=True).between(start, start + TWO_WEEKS, inc=True)
    return [time.astimezone(ZoneInfo(zone)) for time in found]


def test_without_windows_the_job_starts_all_the_time() -> None:
    rule = recurrence_rule(10)
    assert rule == "DTSTART;TZID=UTC:20260101T000000 RRULE:FREQ=MINUTELY;INTERVAL=10"
    times = times_of(rule, "UTC", datetime(2026, 1, 5, tzinfo=UTC))
    assert len(times) == 14 * 24 * 6 + 1 and {later - earlier for earlier, later in pairwise(times)} == {timedelta(minutes=10)}


@pytest.mark.parametrize("minutes", [7, 10, 30, 60, 90, 1440])
@pytest.mark.parametrize(
    "windows",
    [
        NIGHTS,
        "Mon-Fri 22:15-05:40 Europe/Berlin; Sun 00:00-24:00 Europe/Berlin",
        "Sat 23:50-00:10 UTC",
        "Mon,Wed,Sat-Sun 03:00-03:30 America/New_York",
    ],
)
def test_the_times_are_those_of_the_interval_from_the_beginning_of_each_window(windows: str, minutes: int) -> None:
    parsed, zone = parse_windows(windows), windows.split(";")[0].split()[2]
    rule = recurrence_rule(minutes, windows)
    assert schedule_mistakes(rule) == []
    # No clock changes in these weeks.
    monday = datetime(2026, 6, 1, tzinfo=UTC)
    expected = set()
    for window in parsed:
        # A window of the day before may still be open.
        for day in range(-1, 15):
            if (monday + timedelta(days=day)).weekday() in window.days:
                expected |= {monday + timedelta(days=day, minutes=at) for at in range(window.start, window.end, minutes)}
    expected = {time for time in expected if monday <= time <= monday + TWO_WEEKS}
    times = times_of(rule, zone, monday)
    assert [time.replace(tzinfo=UTC) for time in times] == sorted(expected) != []
    assert all(is_inside(parsed, time.timestamp()) for time in times)


@pytest.mark.parametrize("week", [datetime(2026, 3, 23, tzinfo=UTC), datetime(2026, 10, 19, tzinfo=UTC)])
def test_the_times_are_in_the_window_when_the_clock_changes(week: datetime) -> None:
    windows, zone = "Sun 01:00-04:00 Europe/Berlin", dateutil.tz.gettz("Europe/Berlin")
    start = week.replace(tzinfo=zone)
    found = dateutil.rrule.rrulestr(recurrence_rule(30, windows), forceset=True).between(start, start + TWO_WEEKS)
    # AWX starts no job at a time that does not exist.
    times = [time for time in found if dateutil.tz.datetime_exists(time)]
    assert len(times) in (10, 12) and all(is_inside(parse_windows(windows), time.timestamp()) for time in times)


@pytest.mark.parametrize(
    ("minutes", "windows", "text"),
    [
        (0, "", "the interval is 0 minutes: it must be 1 to 1440"),
        (1441, "", "the interval is 1441 minutes"),
        (10, "Mon 22:00-05:00", "has no time zone"),
        (10, "Mon 22:00-05:00 UTC; Tue 22:00-05:00 Europe/Berlin", "the windows have the time zones Europe/Berlin, UTC"),
    ],
)
def test_what_is_no_schedule_is_refused(minutes: int, windows: str, text: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"recurrence_rule: .*{text}"):
        recurrence_rule(minutes, windows)
