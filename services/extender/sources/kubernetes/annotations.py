# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read values from annotations of nodes: ``value``, or ``value,time`` with an RFC 3339 time or the seconds since the epoch.

kube-safe-scheduler's annotators write ``value``, and crane's write ``value,time``.
"""

from __future__ import annotations

import re
import typing as t

from .....plugins.module_utils.model.values.timestamps import parse_time

LONGEST = 64
"""Characters of the longest annotation that can be a value with a time."""

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_ANNOTATION = re.compile(rf"\s*(?P<value>{_NUMBER})\s*(?:,\s*(?P<time>[0-9][0-9A-Za-z:.+-]*)\s*)?", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,11}(?:\.[0-9]+)?", re.ASCII)


class AnnotatedValue(t.NamedTuple):
    """The value of an annotation. ``time_s``: seconds since the epoch, or None if the annotation has no time."""

    value: float
    time_s: float | None


def may_be_value(text: str) -> bool:
    """Return whether the annotation has the form of a value. The others of a node need not be kept."""
    return len(text) <= LONGEST and _ANNOTATION.fullmatch(text) is not None


def parse_annotation(text: str) -> AnnotatedValue | None:
    """Return the value in an annotation. None if it has none, or a time that cannot be read."""
    found = _ANNOTATION.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    value, time_text = float(found["value"]), found["time"]
    time_s = _time(time_text) if time_text is not None else None
    if abs(value) == float("inf") or (time_s is None and time_text is not None):
        return None
    return AnnotatedValue(value, time_s)


def _time(text: str) -> float | None:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return parse_time(text)
    except ValueError:
        return None
