# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Parts of a configuration as plain values, and durations as Go writes them."""

from __future__ import annotations

import math
import re
import typing as t
from collections.abc import Mapping
from decimal import Decimal

Config = dict[str, t.Any]
"""A KubeSchedulerConfiguration, or a mapping in it, as plain values."""

_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"([-+]?)(0|(?:{_PART.pattern})+)")
_MAX_NS = 2**63


def mapping_of(value: t.Any) -> Mapping[str, t.Any]:
    """Return a mapping. Anything else counts as an empty one, as null does; a wrong type is reported elsewhere."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: t.Any) -> list[t.Any]:
    """Return a list. Anything else counts as an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: t.Any) -> str:
    """Return a text. Anything else counts as an empty one."""
    return value if isinstance(value, str) else ""


def number_of(value: t.Any, default: int = 0) -> int:
    """Return a whole number. Null and anything else count as the default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return default
    return int(value)


def duration_ns(value: t.Any) -> t.Optional[int]:
    """Return the nanoseconds of a text such as ``200ms`` or ``1m30s``. None if Go cannot read it (Go's ``time.ParseDuration``)."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    total = sum(int(Decimal(f"0{number}".rstrip(".")) * _UNITS_NS[unit]) for number, unit in _PART.findall(match[2]))
    if total > _MAX_NS or (total == _MAX_NS and match[1] != "-"):
        return None
    return -total if match[1] == "-" else total


def named(entries: t.Any, key: str, name: str) -> t.Optional[Mapping[str, t.Any]]:
    """Return the first mapping of a list whose ``key`` is ``name``, such as a profile by its schedulerName."""
    return next((entry for entry in list_of(entries) if mapping_of(entry).get(key) == name), None)
