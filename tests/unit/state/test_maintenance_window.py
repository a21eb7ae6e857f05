# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The weekly windows of an annotation: their text, the times inside of them, and the next opening."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import (
    MAX_LENGTH,
    MAX_WINDOWS,
    WINDOW_ANNOTATION,
    InvalidWindowError,
    annotated_window,
    is_inside,
    next_opening_s,
    parse_windows,
)

from tools.paths import ROOT

EXAMPLE = "Mon-Fri 22:00-05:00 Europe/Berlin; Sun 00:00-24:00 UTC"


def at(text: str, zone: str = "UTC", *, fold: int = 0) -> float:
    """The time that a clock of the zone shows, in seconds since the epoch."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


# 2026-01-05 is a Monday.
@pytest.mark.parametrize(
    ("text", "moment", "inside"),
    [
        pytest.param("Mon 08:00-10:00 UTC", "2026-01-05 08:00", True, id="the start is inside"),
        pytest.param("Mon 08:00-10:00 UTC", "2026-01-05 07:59:59", False, id="the second before the start is outside"),
        pytest.param("Mon 08:00-10:00 UTC", "2026-01-05 09:59:59.9", True, id="the last moment is inside"),
        pytest.param("Mon 08:00-10:00 UTC", "2026-01-05 10:00", False, id="the end is outside"),
        pytest.param("Mon 08:00-10:00 UTC", "2026-01-06 09:00", False, id="another day is outside"),
        pytest.param("Mon 8:00-9:30 UTC", "2026-01-05 09:29", True, id="an hour of one digit"),
        pytest.param("mon 08:00-10:00 UTC", "2026-01-05 09:00", True, id="a day in small letters"),
        pytest.param("Mon-Fri 08:00-10:00 UTC", "2026-01-09 09:00", True, id="the last day of a range"),
        pytest.param("Mon-Fri 08:00-10:00 UTC", "2026-01-10 09:00", False, id="the day after a range"),
        pytest.param("Sat-Mon 08:00-10:00 UTC", "2026-01-11 09:00", True, id="Sunday is in the range Sat-Mon"),
        pytest.param("Sat-Mon 08:00-10:00 UTC", "2026-01-05 09:00", True, id="Monday is in the range Sat-Mon"),
        pytest.param("Sat-Mon 08:00-10:00 UTC", "2026-01-06 09:00", False, id="Tuesday is not in the range Sat-Mon"),
        pytest.param("Tue-Mon 08:00-10:00 UTC", "2026-01-05 09:00", True, id="a range of the whole week"),
        pytest.param("Mon-Mon 08:00-10:00 UTC", "2026-01-06 09:00", False, id="a range of one day"),
        pytest.param("Mon,Wed-Thu 08:00-10:00 UTC", "2026-01-08 09:00", True, id="a list of days"),
        pytest.param("Mon,Wed-Thu 08:00-10:00 UTC", "2026-01-06 09:00", False, id="a day that is not in the list"),
        pytest.param("Sun 00:00-24:00 UTC", "2026-01-11 23:59:59", True, id="24:00 is the end of the day"),
        pytest.param("Sun 00:00-24:00 UTC", "2026-01-12 00:00", False, id="24:00 is outside"),
        pytest.param("Fri 22:00-05:00 UTC", "2026-01-10 04:59", True, id="a window over midnight ends on the next day"),
        pytest.param("Fri 22:00-05:00 UTC", "2026-01-09 04:59", False, id="a window over midnight belongs to the day on which it begins"),
        pytest.param("Fri 22:00-05:00 UTC", "2026-01-10 05:00", False, id="the end of a window over midnight is outside"),
        pytest.param("Fri 22:00-05:00 UTC", "2026-01-10 22:30", False, id="it does not begin on the day on which it ends"),
        pytest.param("Sun 22:00-05:00 UTC", "2026-01-05 04:00", True, id="a window from Sunday to Monday"),
        pytest.param("Mon 22:00-00:00 UTC", "2026-01-05 23:59", True, id="an end at 00:00 is midnight"),
        pytest.param("Mon 22:00-00:00 UTC", "2026-01-06 00:00", False, id="an end at 00:00 is outside"),
        pytest.param("Mon 12:00-11:59 UTC", "2026-01-06 11:58", True, id="a window of almost a day"),
        pytest.param(EXAMPLE, "2026-01-05 20:59", False, id="Berlin is an hour before UTC in winter"),
        pytest.param(EXAMPLE, "2026-01-05 21:00", True, id="21:00 UTC is 22:00 in Berlin in winter"),
        pytest.param(EXAMPLE, "2026-07-06 20:00", True, id="20:00 UTC is 22:00 in Berlin in summer"),
        pytest.param(EXAMPLE, "2026-01-11 12:00", True, id="the second window of the list"),
        pytest.param("Mon 00:00-01:00 Pacific/Kiritimati", "2026-01-04 10:30", True, id="the day is the day of the zone"),
        pytest.param("Mon 00:00-01:00 Asia/Kathmandu", "2026-01-04 18:20", True, id="a zone with an offset of 5:45"),
        pytest.param("Mon 08:00-10:00 Etc/GMT+5", "2026-01-05 13:00", True, id="a zone with a fixed offset"),
        pytest.param(" Mon\t08:00-10:00\n UTC ;\r\n", "2026-01-05 09:00", True, id="spaces, line breaks and a semicolon at the end"),
    ],
)
def test_time_is_inside_if_a_clock_of_the_zone_shows_a_time_of_the_window(text: str, moment: str, inside: bool) -> None:
    assert is_inside(parse_windows(text), at(moment)) == inside


# In Berlin the clock skips 02:00 to 03:00 on Sunday 2026-03-29, and repeats that hour on Sunday 2026-10-25.
@pytest.mark.parametrize(
    ("window", "moment", "fold", "inside"),
    [
        pytest.param("02:30-04:00", "2026-03-29 01:59:59", 0, False, id="before the skipped hour"),
        pytest.param("02:30-04:00", "2026-03-29 03:00", 0, True, id="a start in the skipped hour is its end"),
        pytest.param("01:00-02:30", "2026-03-29 03:00", 0, False, id="an end in the skipped hour is its start"),
        pytest.param("02:10-02:50", "2026-03-29 03:00", 0, False, id="a window in the skipped hour does not open"),
        pytest.param("02:10-02:50", "2026-10-25 02:30", 0, True, id="the first of the repeated hours"),
        pytest.param("02:10-02:50", "2026-10-25 02:30", 1, True, id="the second of the repeated hours"),
        pytest.param("02:10-02:50", "2026-10-25 02:55", 0, False, id="between the repeated times"),
        pytest.param("01:00-02:30", "2026-10-25 02:15", 1, True, id="an end in the repeated hour counts both times"),
    ],
)
def test_window_on_the_day_of_a_clock_change(window: str, moment: str, fold: int, inside: bool) -> None:
    windows = parse_windows(f"Sun {window} Europe/Berlin")
    assert is_inside(windows, at(moment, "Europe/Berlin", fold=fold)) == inside


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is not days"),
        (";", "is not days"),
        ("Mon 08:00-10:00 UTC;; Tue 08:00-10:00 UTC", "is not days"),
        ("always", "is not days"),
        ("Mon 08:00-10:00", "has no time zone; add one"),
        ("Mon 08:00 - 10:00 UTC", "is not days"),
        ("08:00-10:00 UTC", "is not days"),
        ("Mon 08:00-10:00 UTC Tue 08:00-10:00 UTC", "is not days"),
        ("Monday 08:00-10:00 UTC", "'Monday' is not a day"),
        ("Mon-Wed-Fri 08:00-10:00 UTC", "'Mon-Wed-Fri' is not a day"),
        ("Mon- 08:00-10:00 UTC", "'Mon-' is not a day"),
        ("Mon, 08:00-10:00 UTC", "'' is not a day"),
        ("Mon,,Tue 08:00-10:00 UTC", "'' is not a day"),
        ("* 08:00-10:00 UTC", "'*' is not a day"),
        ("Mon 8-10 UTC", "'8-10' is not a range of times"),
        ("Mon 08:00:00-10:00:00 UTC", "is not a range of times"),
        ("Mon 08:0-10:00 UTC", "is not a range of times"),
        ("Mon 08:00-10:60 UTC", "a time that does not exist"),
        ("Mon 25:00-26:00 UTC", "a time that does not exist"),
        ("Mon 24:00-05:00 UTC", "a time that does not exist"),
        ("Mon 20:00-24:01 UTC", "a time that does not exist"),
        ("Mon -1:00-10:00 UTC", "is not a range of times"),
        ("Mon 08:00-08:00 UTC", "ends at the same time"),
        ("Mon 08:00-10:00 Europe/Atlantis", "'Europe/Atlantis' is not a time zone"),
        ("Mon 08:00-10:00 Europe", "is not a time zone"),
        ("Mon 08:00-10:00 CET+1", "is not a time zone"),
        ("Mon 08:00-10:00 +02:00", "is not a time zone"),
        ("Mon 08:00-10:00 utc", "is not a time zone"),
        ("Mon 08:00-10:00 localtime", "is not a time zone"),
        ("Mon 08:00-10:00 right/Europe/Berlin", "is not a time zone"),
        ("Mon 08:00-10:00 ../../etc/passwd", "is not a time zone"),
        ("Mon 08:00-10:00 /etc/localtime", "is not a time zone"),
        ("Mon 08:00-10:00 Europe/../Europe/Berlin", "is not a time zone"),
        ("Mon 08:00-10:00 UTC\0", "is not a time zone"),
        ("Mon 08:00-10:00 A" + "/A" * 400, "is not a time zone"),
        # Cyrillic letters, Arabic digits, a no-break space and a mark that reverses the text.
        ("Моn 08:00-10:00 UTC", "'\\u041c\\u043en' is not a day"),
        ("\u212aon 08:00-10:00 UTC", "'\\u212aon' is not a day"),
        ("Mon ٠٨:00-10:00 UTC", "is not a range of times"),
        ("Mon\u00a008:00-10:00\u00a0UTC", "'Mon\\xa008:00-10:00\\xa0UTC' is not days"),
        ("Mon 08:00-10:00 \u202eUTC", "'\\u202eUTC' is not a time zone"),
        ("Mon 08:00–10:00 UTC", "is not a range of times"),
        # One good window does not help the bad one.
        ("Mon 08:00-10:00 UTC; Tue 8-10 UTC", "'8-10' is not a range of times"),
    ],
)
def test_annotation_with_a_wrong_part_is_invalid_as_a_whole(text: str, part: str) -> None:
    with pytest.raises(InvalidWindowError) as raised:
        parse_windows(text)
    assert part in str(raised.value) and str(raised.value).isascii()


def test_long_annotations_and_thousands_of_windows_are_invalid() -> None:
    with pytest.raises(InvalidWindowError, match=f"at most {MAX_LENGTH}"):
        parse_windows("Mon 08:00-10:00 UTC;" * 10_000)
    with pytest.raises(InvalidWindowError, match=f"at most {MAX_WINDOWS}"):
        parse_windows(";" * 500)
    assert len(parse_windows("; ".join(["Mon 0:00-1:00 UTC"] * MAX_WINDOWS))) == MAX_WINDOWS


def test_error_about_a_long_part_does_not_repeat_all_of_it() -> None:
    with pytest.raises(InvalidWindowError) as raised:
        parse_windows("M" * MAX_LENGTH)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("Mon 08:00-10:00 UTC", "2026-01-05 07:00", "2026-01-05T08:00:00Z"),
        ("Mon 08:00-10:00 UTC", "2026-01-05 10:00", "2026-01-12T08:00:00Z"),
        ("Mon-Fri 22:00-05:00 Europe/Berlin", "2026-01-10 12:00", "2026-01-12T21:00:00Z"),
        (EXAMPLE, "2026-01-10 12:00", "2026-01-11T00:00:00Z"),
        ("Mon 08:00-10:00 UTC; Sun 08:00-10:00 UTC", "2026-01-06 00:00", "2026-01-11T08:00:00Z"),
        # On 2026-03-29 the clock of Berlin skips 02:00 to 03:00, which is 01:00 UTC.
        pytest.param("Sun 02:30-04:00 Europe/Berlin", "2026-03-28 12:00", "2026-03-29T01:00:00Z", id="a start that is skipped"),
        pytest.param("Sun 02:10-02:50 Europe/Berlin", "2026-03-28 12:00", "2026-04-05T00:10:00Z", id="a window that is skipped"),
        # On 2026-10-25 it repeats 02:00 to 03:00 from 01:00 UTC on.
        pytest.param("Sun 02:10-02:50 Europe/Berlin", "2026-10-25 00:55", "2026-10-25T01:10:00Z", id="a start that is repeated"),
        pytest.param("Sun 01:00-02:30 Europe/Berlin", "2026-10-25 00:45", "2026-10-25T01:00:00Z", id="an end that is repeated"),
        # Samoa had no Friday 2011-12-30.
        pytest.param("Fri 08:00-09:00 Pacific/Apia", "2011-12-24 12:00", "2012-01-05T18:00:00Z", id="a day that is skipped"),
    ],
)
def test_next_opening(text: str, now: str, expected: str) -> None:
    opening = next_opening_s(parse_windows(text), at(now))
    assert opening is not None and format_time(opening) == expected


@pytest.mark.parametrize("seed", range(40))
def test_next_opening_is_the_first_minute_inside(seed: int) -> None:
    """The oracle asks every minute. The times begin in the weeks of a clock change."""
    chance = random.Random(seed)
    zones = ("Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "UTC")
    starts = [f"{chance.choice(('Sat', 'Sun', 'Mon'))} {chance.randint(0, 3):02}:{chance.randint(0, 59):02}" for _ in range(2)]
    text = "; ".join(f"{start}-0{chance.randint(1, 4)}:{chance.randint(0, 59):02} {chance.choice(zones)}" for start in starts)
    windows = parse_windows(text)
    now_s = at(chance.choice(("2026-03-27", "2026-10-23", "2026-04-03", "2026-10-02", "2026-03-06"))) + chance.randint(0, 3000) * 60
    if is_inside(windows, now_s):
        return
    opening = next_opening_s(windows, now_s)
    minutes = (now_s + 60 * minute for minute in range(15 * 24 * 60))
    assert opening == next((minute_s for minute_s in minutes if is_inside(windows, minute_s)), None), (text, format_time(now_s))


def test_annotation_of_the_workload_has_precedence_over_that_of_its_namespace() -> None:
    ours, theirs = {WINDOW_ANNOTATION: "nonsense"}, {WINDOW_ANNOTATION: EXAMPLE}
    assert annotated_window(ours, theirs) == ("nonsense", False)
    assert annotated_window({WINDOW_ANNOTATION: ""}, theirs) == ("", False)
    assert annotated_window({"other": "x"}, theirs) == (EXAMPLE, True)
    assert annotated_window(None, None) is None


def test_longest_annotation_costs_little() -> None:
    """The cost of a hostile annotation is bounded. The limit is far above the time that it takes."""
    zones = ["Europe/Berlin", "Asia/Tokyo", "America/Lima", "UTC"]
    text = "; ".join(f"Mon 00:{number:02}-00:{number + 1:02} {zones[number % 4]}" for number in range(MAX_WINDOWS))
    now_s, began_s = at("2026-01-07"), time.monotonic()
    for _again in range(10):
        parse_windows.cache_clear()
        assert next_opening_s(parse_windows(text), now_s) is not None
    assert time.monotonic() - began_s < 60


NO_DATA = """
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import *
import sys
sys.modules["tzdata"] = None
assert is_inside(parse_windows("Mon 08:00-10:00 UTC"), 1767605400)
try:
    parse_windows("Mon 08:00-10:00 Europe/Berlin")
except NoTimeZonesError as error:
    print(error)
"""


def test_machine_without_time_zone_data_knows_utc_and_says_what_to_install() -> None:
    environment = {**os.environ, "PYTHONTZPATH": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", NO_DATA], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'Europe/Berlin'" in done.stdout and "install the package tzdata" in done.stdout


def test_utc_is_the_same_with_and_without_the_database() -> None:
    assert parse_windows("Mon 08:00-10:00 UTC")[0].zone is UTC
    for name in ("Etc/UTC", "Europe/London"):
        assert is_inside(parse_windows(f"Mon 08:00-10:00 {name}"), at("2026-01-05 09:00"))
