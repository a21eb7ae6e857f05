# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The kinds of single values that settings have: texts, numbers, times, addresses, switches and choices."""

from __future__ import annotations

import contextlib
import math
import sys
import typing as t
from collections.abc import Callable
from urllib.parse import urlsplit

from ...plugins.module_utils.model.option_values import LONGEST_S
from ...plugins.module_utils.model.values.duration import parse_duration
from ...plugins.module_utils.model.values.shown import shown_value

SMALLEST, LARGEST = math.ulp(0.0), sys.float_info.max
"""The smallest number above 0, and the largest finite one."""


class Kind(t.NamedTuple):
    """A kind of value. ``parse`` accepts a text of the command line or a value from YAML.

    It raises ValueError with the text that follows ``NAME is VALUE: ``. ``metavar`` is the placeholder for a value in the help.
    ``is_secret``: an error does not show a text, because it may have a password.
    """

    parse: Callable[[t.Any], t.Any]
    metavar: str = "TEXT"
    is_secret: bool = False


def _limited(metavar: str, read: Callable[[t.Any], float], least: float, most: float, expected: str) -> Kind:
    """Return a kind of numbers in a range, which includes its ends. ``read`` raises an error for another type."""

    def parse(value: t.Any) -> float:
        # Python refuses to read a number with thousands of digits, and to convert one to a float.
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            found = read(value)
            if least <= found <= most:
                return found
        raise ValueError(f"it must be {expected}")

    return Kind(parse, metavar)


def whole(least: int | None = None, most: int | None = None) -> Kind:
    """Return the kind of whole numbers."""
    limits = f" from {least} to {most}" if most is not None else ""
    return _limited("N", _whole, -math.inf if least is None else least, math.inf if most is None else most, f"a whole number{limits}")


def number(least: float | None = None, most: float | None = None) -> Kind:
    """Return the kind of finite numbers."""
    limits = f" from {least} to {most}" if most is not None else ""
    return _limited("N", _number, -LARGEST if least is None else least, LARGEST if most is None else most, f"a number{limits}")


def positive(most: float = LARGEST) -> Kind:
    """Return the kind of finite numbers above 0."""
    return _limited("N", _number, SMALLEST, most, f"a number above 0{f' and at most {most}' if most < LARGEST else ''}")


def seconds(least: int = 1, most: int = LONGEST_S) -> Kind:
    """Return the kind of times in whole seconds."""
    return _limited("DURATION", parse_duration, least, most, _time_text(least, most))


def exact_seconds(least: float, most: float) -> Kind:
    """Return the kind of times in seconds, which may be fractions."""
    return _limited("DURATION", _exact_seconds, least, most, _time_text(least, most))


def _exact_seconds(value: t.Any) -> float:
    return value if isinstance(value, float) else float(parse_duration(value))


def _time_text(least: float, most: float) -> str:
    return f"a time from {least} to {most} seconds, such as 30, 30s, 2m30s or 1h"


def _whole(value: t.Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    return int(value)


def _number(value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def one_of(*words: str) -> Kind:
    """Return the kind of texts in a list."""

    def parse(value: t.Any) -> t.Any:
        if value not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")
        return value

    return Kind(parse, "|".join(words))


def text(
    metavar: str = "TEXT", *, is_good: Callable[[str], t.Any] = lambda _: True, expected: str = "it must be a text: write it in quotes"
) -> Kind:
    """Return a kind of texts. ``expected``: the error of a text that is not good, and of another type."""

    def parse(value: t.Any) -> str:
        if not isinstance(value, str) or not is_good(value):
            raise ValueError(expected)
        return value

    return Kind(parse, metavar)


def base_url(expected: str, with_user: str) -> Kind:
    """Return the kind of addresses of HTTP servers. The slash at the end is removed. ``with_user``: the error of one with a user name."""

    def parse(value: t.Any) -> str:
        try:
            parts = urlsplit(value if isinstance(value, str) else "")
            is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not (parts.query or parts.fragment)
        except ValueError:
            raise ValueError(expected) from None
        if "@" in parts.netloc:
            raise ValueError(with_user)
        if not is_good:
            raise ValueError(expected)
        return str(value).rstrip("/")

    return Kind(parse, "URL", is_secret=True)


def names(metavar: str = "NAME,NAME", *known: str) -> Kind:
    """Return the kind of lists of names, as a list or as a text with commas. If there are ``known`` names, each must be one of them."""

    def parse(value: t.Any) -> list[str]:
        found = value.split(",") if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ValueError("it must be a list of names, each of which is a text")
        found = [name.strip() for name in found]
        wrong = [name for name in found if known and name not in known]
        if wrong:
            raise ValueError(f"{shown_value(wrong[0])} is not one of {', '.join(known)}")
        return found

    return Kind(parse, metavar)


def _switch(value: t.Any) -> bool:
    known = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    found = known.get(str(value).strip().lower())
    if found is None:
        raise ValueError("it must be true or false")
    return found


SWITCH = Kind(_switch, "true|false")
TEXT = text()

Text = t.Annotated[str, text(is_good=bool, expected="it must be a text that is not empty")]
"""A text that is not empty if it is given."""
