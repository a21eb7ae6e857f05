# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Maintenance windows: the weekly times at which pods of a workload may be moved, in an annotation of the workload or its namespace.

Rescues use them only with ``respect_windows``.

The annotation is a list of windows, separated by semicolons, such as ``Mon-Fri 22:00-05:00 Europe/Berlin; Sun 00:00-24:00 UTC``. A window
has its days, its times and its time zone. A time is inside of a window if a clock in that zone shows a time of the window. An hour that the
clock skips is never inside. An hour that the clock repeats counts both times.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from datetime import time as wall_time
from functools import lru_cache

WINDOW_ANNOTATION = "kube-scheduling.onprem/window"
EXAMPLE = "Mon-Fri 22:00-05:00 Europe/Berlin; Sun 00:00-24:00 UTC"

OUTSIDE_WINDOW = "outside_window"
"""The code of the reason for a time outside of all windows."""
INVALID_WINDOW = "invalid_window"
"""The code of the reason for an annotation that cannot be read."""
NO_TIME_ZONES = "no_time_zones"
"""The code of the reason if this machine has no time zone data."""

MAX_LENGTH = 1024
"""Limit of characters of an annotation. The API server allows 256 KiB, and every tenant may write one."""
MAX_WINDOWS = 32
MAX_SHOWN = 100
"""Limit of characters of an annotation in a message."""

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MINUTES = 24 * 60
SEARCH_DAYS = 15
"""Days in which the next opening is searched. A window of one day in the week can lie in a skipped hour, and then opens a week later."""
HALF_HOUR_S = 1800
"""A zone changes its offset only at a full or a half hour of UTC. A clock then skips or repeats a time."""

_DAY_NUMBERS = {name.lower(): number for number, name in enumerate(DAYS)}
_SPACES = re.compile(r"[ \t\r\n]+")
_TIMES = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
# Zones of the IANA database. Other files of a time zone folder have names in lower case, such as localtime, posix/ and right/.
# A name has at most three parts, such as America/Argentina/Buenos_Aires. A search for a name with hundreds of parts overflows the stack.
_ZONE = re.compile(r"[A-Z][A-Za-z0-9_+-]{0,30}(/[A-Z][A-Za-z0-9_+-]{0,30}){0,2}")


class InvalidWindowError(ValueError):
    """The annotation cannot be read. The text says which part is wrong and what is expected."""


class NoTimeZonesError(Exception):
    """This machine has no time zone data. The text says what to install."""


class MaintenanceWindow(t.NamedTuple):
    """A window on some days of the week, which are numbers from 0 for Monday.

    ``start`` and ``end`` are minutes after midnight of the day on which the window begins. ``end`` is not part of the window. It is more
    than a day for a window that ends on the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: tzinfo

    def is_open(self, now_s: float) -> bool:
        """Return whether the time is inside. ``now_s`` is in seconds since the epoch."""
        local = datetime.fromtimestamp(now_s, self.zone)
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if day in self.days and self.start <= minute < self.end:
            return True
        return (day - 1) % 7 in self.days and minute + DAY_MINUTES < self.end


class AnnotatedWindow(t.NamedTuple):
    """The value of the annotation. ``of_namespace``: it is the annotation of the namespace, not of the workload."""

    text: str
    of_namespace: bool


def annotated_window(workload: t.Optional[Mapping[str, str]], namespace: t.Optional[Mapping[str, str]]) -> t.Optional[AnnotatedWindow]:
    """Return the window that applies, from the annotations of the workload and of its namespace. None if neither has one.

    The annotation of the workload has precedence, also if it cannot be read.
    """
    for present, of_namespace in ((workload, False), (namespace, True)):
        text = (present or {}).get(WINDOW_ANNOTATION)
        if text is not None:
            return AnnotatedWindow(text, of_namespace)
    return None


@lru_cache(maxsize=1024)
def parse_windows(text: str) -> tuple[MaintenanceWindow, ...]:
    """Return the windows of an annotation. Raise InvalidWindowError and NoTimeZonesError.

    One part that cannot be read makes the whole annotation invalid, because the intention of its writer is not known.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidWindowError(f"it has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    parts = text.split(";")
    if len(parts) > 1 and not parts[-1].strip(" \t\r\n"):
        del parts[-1]
    if len(parts) > MAX_WINDOWS:
        raise InvalidWindowError(f"it has {len(parts)} windows; at most {MAX_WINDOWS} are allowed")
    return tuple(_parse_window(part) for part in parts)


def is_inside(windows: Sequence[MaintenanceWindow], now_s: float) -> bool:
    """Return whether the time is inside of one of the windows. ``now_s`` is in seconds since the epoch."""
    return any(window.is_open(now_s) for window in windows)


def next_opening_s(windows: Sequence[MaintenanceWindow], now_s: float) -> t.Optional[float]:
    """Return the time at which the next window opens, in seconds since the epoch. ``now_s`` is outside of all windows.

    None if no window opens within SEARCH_DAYS.
    """
    first = int(now_s) // HALF_HOUR_S * HALF_HOUR_S + HALF_HOUR_S
    possible = {float(at_s) for at_s in range(first, first + SEARCH_DAYS * 24 * 3600, HALF_HOUR_S)}
    possible.update(at_s for window in windows for at_s in _starts(window, now_s))
    return next((at_s for at_s in sorted(possible) if is_inside(windows, at_s)), None)


def shown(text: str) -> str:
    """Return the annotation for a message: quoted, shortened, and with every character outside of ASCII as an escape."""
    short = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
    return ascii(short)


def _parse_window(part: str) -> MaintenanceWindow:
    words = [word for word in _SPACES.split(part) if word]
    if len(words) == 2 and _TIMES.fullmatch(words[1]):
        raise InvalidWindowError(f"{shown(part)} has no time zone; add one, such as UTC or Europe/Berlin")
    if len(words) != 3:
        raise InvalidWindowError(f"{shown(part)} is not days, times and a time zone")
    start, end = _parse_times(words[1])
    return MaintenanceWindow(_parse_days(words[0]), start, end, _zone(words[2]))


def _parse_days(text: str) -> frozenset[int]:
    """Return the days of ``Mon``, ``Mon-Fri``, ``Sat-Mon`` or a list of these, separated by commas."""
    days: set[int] = set()
    for part in text.split(","):
        names = part.split("-")
        numbers = [_DAY_NUMBERS.get(name.lower()) if name.isascii() else None for name in names]
        first, last = numbers[0], numbers[-1]
        if len(names) > 2 or first is None or last is None:
            raise InvalidWindowError(f"{shown(part)} is not a day or a range of days; the days are {', '.join(DAYS)}")
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return frozenset(days)


def _parse_times(text: str) -> tuple[int, int]:
    """Return start and end in minutes after midnight. The end is on the next day if it is not after the start."""
    match = _TIMES.fullmatch(text)
    if match is None:
        raise InvalidWindowError(f"{shown(text)} is not a range of times, such as 22:00-05:00")
    hours, minutes = (int(match[1]), int(match[3])), (int(match[2]), int(match[4]))
    start, end = (hour * 60 + minute for hour, minute in zip(hours, minutes))
    if max(minutes) > 59 or start >= DAY_MINUTES or end > DAY_MINUTES:
        raise InvalidWindowError(f"{shown(text)} has a time that does not exist; use 00:00 to 23:59, and 24:00 only as the end")
    if start == end:
        raise InvalidWindowError(f"{shown(text)} begins and ends at the same time; a whole day is 00:00-24:00")
    return start, end if end > start else end + DAY_MINUTES


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    """Return the time zone. UTC is known without time zone data."""
    if name == "UTC":
        return timezone.utc
    found = _zone_of_database(name) if _ZONE.fullmatch(name) else None
    if found is not None:
        return found
    if _zone_of_database("Etc/UTC") is None:
        raise NoTimeZonesError(
            f"the time zone {shown(name)} is not known, because this machine has no time zone data; install the package tzdata of its "
            "operating system, or the Python package tzdata"
        )
    raise InvalidWindowError(f"{shown(name)} is not a time zone of the IANA database, such as UTC or Europe/Berlin")


def _zone_of_database(name: str) -> t.Optional[tzinfo]:
    from zoneinfo import ZoneInfo  # only annotated workloads need it

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # KeyError: no such zone. The others: the name of a folder, or of a file that is no zone.
        return None


def _starts(window: MaintenanceWindow, now_s: float) -> Iterator[float]:
    """Yield the times after ``now_s`` at which a clock in the zone shows the start of the window."""
    today = datetime.fromtimestamp(now_s, window.zone).date()
    at = wall_time(*divmod(window.start, 60))
    for days in range(SEARCH_DAYS):
        date = today + timedelta(days=days)
        if date.weekday() in window.days:
            local = datetime.combine(date, at, window.zone)
            # The second one differs if the clock repeats or skips this time.
            for at_s in (local.timestamp(), local.replace(fold=1).timestamp()):
                if at_s > now_s:
                    yield at_s
