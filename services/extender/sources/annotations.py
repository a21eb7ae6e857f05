# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read values from annotations of nodes: ``value``, or ``value,time`` with an RFC 3339 time or the seconds since the epoch.

kube-safe-scheduler's annotators write ``value``, and crane's write ``value,time``.
"""

from __future__ import annotations

import re
import typing as t

from ....plugins.module_utils.model.values.timestamps import parse_time

LONGEST = 64
"""Characters of the longest annotation that can be a value with a time."""

LONGEST_EARLY_S = 60.0
"""Seconds by which the time may be later than the API server's clock. A time that is later than this is not used."""

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_ANNOTATION = re.compile(rf"\s*(?P<value>{_NUMBER})\s*(?:,\s*(?P<time>[0-9][0-9A-Za-z:.+-]*)\s*)?", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,11}(?:\.[0-9]+)?", re.ASCII)


class AnnotatedValue(t.NamedTuple):
    """The value of an annotation. ``time_s``: seconds since the epoch, or None if it has no time or one that cannot be read."""

    value: float
    time_s: float | None


def may_be_value(text: str) -> bool:
    """Return whether the annotation has the form of a value. The others of a node need not be kept."""
    return len(text) <= LONGEST and _ANNOTATION.fullmatch(text) is not None


def parse_annotation(text: str) -> AnnotatedValue | None:
    """Return the value in an annotation, or None if it has none."""
    found = _ANNOTATION.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    value = float(found["value"])
    return AnnotatedValue(value, _time(found["time"])) if abs(value) != float("inf") else None


def measured_at(time_s: float | None, server_now_s: float, now_s: float) -> float | None:
    """Return the monotonic time of a value, or None if it is unknown.

    ``server_now_s``: the API server's clock, in seconds since the epoch. ``now_s``: the monotonic time of the same moment.
    """
    if time_s is None:
        return None
    age_s = server_now_s - time_s
    return now_s - max(0.0, age_s) if age_s >= -LONGEST_EARLY_S else None


def _time(text: str | None) -> float | None:
    if text is None:
        return None
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return parse_time(text)
    except ValueError:
        return None
