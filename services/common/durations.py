# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Durations in the form that Go programs accept on the command line."""

from __future__ import annotations

import re
from decimal import Decimal

_UNIT_S = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str) -> int:
    """Return the whole seconds of ``10s``, ``2m30s``, ``1.5h`` or ``10``. Raises ValueError."""
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration: write it as 10s, 2m30s or 1h, or as whole seconds")
    seconds = sum((Decimal(number) * _UNIT_S[unit] for number, unit in _PART.findall(text)), Decimal(0))
    if seconds != int(seconds):
        raise ValueError(f"{text!r} is no whole number of seconds")
    return int(seconds)
