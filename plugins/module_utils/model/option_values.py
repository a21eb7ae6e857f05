# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The values of options of all features: the error of an invalid one, durations, and minima."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .values.duration import parse_duration

LONGEST_S = 365 * 24 * 3600
"""The maximum of each option that is a time, in seconds."""


class OptionError(ValueError):
    """An option has an invalid value. The text begins with the option's name."""


def seconds_of(params: Mapping[str, t.Any], name: str) -> int:
    """Return the option ``name`` in whole seconds. Raise OptionError if it is not a duration, or above LONGEST_S."""
    try:
        seconds = parse_duration(params[name])
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from None
    if seconds > LONGEST_S:
        raise OptionError(f"{name} is {params[name]}: the maximum is a year, {LONGEST_S} seconds")
    return seconds


def check_minima(params: Mapping[str, t.Any], minima: Mapping[str, int]) -> None:
    """Raise OptionError for numbers below their minimum. None (unset) passes."""
    for name, minimum in minima.items():
        value = params.get(name)
        if value is not None and value < minimum:
            raise OptionError(f"{name} is {value}: it must be at least {minimum}")
