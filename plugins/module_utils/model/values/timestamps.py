# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Times as the API writes them: RFC 3339 with a time zone."""

from __future__ import annotations

import re
import typing as t
from datetime import datetime, timezone
from functools import lru_cache

EARLIEST_S, LATEST_S = -62135596800.0, 253402300799.0
"""The first and the last second of Python's calendar: the years 1 and 9999."""

MOST_TIMES = 1024
"""Times that are kept. Many objects of a cluster are written in the same second."""

# A Go program converts times to UTC, and writes years before 1 and after 9999 without a limit.
_YEAR = re.compile(r"(-?[0-9]+)-")


def format_time(epoch_s: float) -> str:
    """Return seconds since the epoch as ``2026-01-31T08:15:00Z``."""
    return _text(int(epoch_s), "seconds")


@lru_cache(maxsize=MOST_TIMES)
def parse_time(text: str) -> float:
    """Return seconds since the epoch. Raises ValueError if the text is not an RFC 3339 time with a time zone.

    A year outside Python's calendar gives the calendar's first or last second.
    """
    year = _YEAR.match(text)
    if year is not None and (len(year[1]) > 4 or year[1].startswith("-") or year[1] == "0000"):
        return EARLIEST_S if year[1].startswith("-") or not year[1].strip("0") else LATEST_S
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.timestamp()


def read_time(text: t.Optional[str]) -> t.Optional[float]:
    """Return ``parse_time`` of a field that may be absent. Return None if it is absent or not a valid time."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def format_micro_time(epoch_s: float) -> str:
    """Return seconds since the epoch as ``2026-01-31T08:15:00.250000Z``, the format of Leases (apimachinery ``MicroTime``)."""
    return _text(epoch_s, "microseconds")


def _text(epoch_s: float, precision: str) -> str:
    moment = datetime.fromtimestamp(max(EARLIEST_S, min(LATEST_S, epoch_s)), timezone.utc)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
