# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Durations: whole seconds, or the form that Go programs accept on the command line."""

from __future__ import annotations

import re
import typing as t
from decimal import Decimal

from .shown import shown_value

_UNIT_S = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(value: t.Any) -> int:
    """Return the whole seconds of ``30``, ``"30"``, ``"30s"``, ``"2m30s"`` or ``"1.5h"``. Raises ValueError without the option's name."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(_not_a_duration(value))
    if isinstance(value, int):
        return value
    text = value.strip()
    # Python refuses to read a number with thousands of digits.
    if re.fullmatch(r"-?[0-9]{1,1000}", text, re.ASCII):
        return int(text)
    if not _DURATION.fullmatch(text):
        raise ValueError(_not_a_duration(value))
    seconds = sum((Decimal(number) * _UNIT_S[unit] for number, unit in _PART.findall(text)), Decimal(0))
    if seconds != int(seconds):
        raise ValueError(f"{shown_value(value)} is not a whole number of seconds")
    return int(seconds)


def _not_a_duration(value: t.Any) -> str:
    return f"{shown_value(value)} is not a duration: write whole seconds, such as 30, or a text such as 30s, 2m30s or 1h"
