# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The arguments of agents: structs that are read from ``args`` of FILE, and the checks that several of them use."""

from __future__ import annotations

import functools
import re
import typing as t
from collections.abc import Mapping

from ....plugins.module_utils.model.codec import DecodeError, Struct, convert, field, fields_of
from ....plugins.module_utils.model.values.duration import parse_duration
from ....plugins.module_utils.model.values.nearest import nearest
from ....plugins.module_utils.model.values.shown import shown_value

Duration = int | str
"""Whole seconds, or a text such as 30s or 5m."""

_PLACE = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)
_NOT_LISTED = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_OTHER_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<found>[^`]*)`")
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "empty",
}
"""The types in the errors of msgspec, as a person writes them in FILE."""

# Prometheus has RE2, which has neither assertions about neighbours nor references to groups.
_NOT_IN_RE2 = re.compile(r"\(\?(=|!|<=|<!|>|\(|P=)|\\[1-9]|[*+?}]\+")

_parsed_duration = functools.lru_cache(typed=True)(parse_duration)
"""Agents ask for the same duration at each node."""

T = t.TypeVar("T")


def read_arguments(kind: type[T], args: Mapping[str, t.Any] | None) -> T:
    """Return the struct with the arguments. Raises ValueError with a sentence that begins with the field's name."""
    try:
        return convert(kind, dict(args or {}))
    except DecodeError as error:
        raise ValueError(_sentence(kind, str(error))) from None


def _sentence(kind: t.Any, text: str) -> str:
    found = _PLACE.fullmatch(text)
    message, place = (found["text"], found["place"] or "") if found else (text, "")
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown:
        name = ".".join(filter(None, (place, unknown["field"])))
        return f"{name} is not an argument{_nearest(unknown['field'], kind if not place else None)}"
    missing = _MISSING_FIELD.fullmatch(message)
    if missing:
        return f"{'.'.join(filter(None, (place, missing['field'])))} is missing"
    not_listed, allowed = _NOT_LISTED.fullmatch(message), _allowed_values(kind, place)
    if not_listed and allowed:
        return f"{place} is {_shown_again(not_listed['value'])}: it must be one of {', '.join(allowed)}"
    other_type = _OTHER_TYPE.fullmatch(message)
    if other_type and place:
        wanted = f"it must be one of {', '.join(allowed)}" if allowed else f"{_types_text(other_type['expected'])} is expected"
        return f"{place} is {_types_text(other_type['found'])}: {wanted}"
    return f"{place}: {message}" if place else message


def _shown_again(text: str) -> str:
    """Return a value that msgspec shows, a number or a text in quotes, as ``shown_value`` shows it."""
    return shown_value(text[1:-1]) if text.startswith("'") else text


def _types_text(types: str) -> str:
    """Return the types of an error of msgspec, such as ``int | str``, in words. An argument that may be empty can also be absent."""
    names = types.split(" | ")
    return " or ".join(_TYPES.get(name, f"a {name}") for name in names if name != "null" or len(names) == 1)


def _allowed_values(kind: t.Any, place: str) -> list[str]:
    """Return the values of a field that has a list of them."""
    types = [entry.type for entry in fields_of(kind) if entry.encode_name == place]
    return [str(value) for of in types if t.get_origin(of) is t.Literal for value in t.get_args(of)]


def _nearest(field: str, kind: t.Any) -> str:
    names = [entry.encode_name for entry in fields_of(kind)] if kind is not None else []
    if kind is None:
        return ""
    return nearest(field, names) or (f"; the arguments are {', '.join(names)}" if names else "; the agent has no arguments")


class ValueAgeArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of an agent that reads measured values. ``max_age_s``: older values are unknown. An agent can have another default."""

    max_age: Duration = field(default=300, name="max_age_s")

    def __post_init__(self) -> None:
        seconds("max_age_s", self.max_age)

    @property
    def max_age_s(self) -> int:
        """Return the age in seconds from which on values are unknown."""
        return seconds("max_age_s", self.max_age)


def seconds(name: str, value: Duration, *, least: int = 1) -> int:
    """Return a duration in whole seconds. Raises ValueError that names the argument."""
    try:
        found = _parsed_duration(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if found < least:
        raise ValueError(f"{name} is {value}: it must be at least {least} s")
    return found


def check_range(name: str, value: float | None, least: float, most: float) -> None:
    """Raise ValueError if the number is not in the range, which includes its ends. None passes, and NaN does not."""
    if value is not None and not least <= value <= most:
        raise ValueError(f"{name} is {value}: it must be from {least} to {most}")


def check_positive(name: str, value: float | None) -> None:
    """Raise ValueError if the number is not finite and above 0. None passes."""
    if value is not None and not 0 < value < float("inf"):
        raise ValueError(f"{name} is {value}: it must be above 0")


def check_pattern(name: str, pattern: str) -> None:
    """Raise ValueError if the text is not a regular expression that both Python and Prometheus (RE2) can use."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{name} is {shown_value(pattern)}: it is not a regular expression: {error}") from None
    if _NOT_IN_RE2.search(pattern):
        raise ValueError(
            f"{name} is {shown_value(pattern)}: Prometheus has no look-ahead, look-behind, possessive repeats or references to groups"
        )


def check_exclusive(**values: t.Any) -> None:
    """Raise ValueError if not exactly one of the arguments is given. Empty values count as absent."""
    given = [name for name, value in values.items() if value]
    names = " or ".join(values)
    if not given:
        raise ValueError(f"{names} is missing: give one of them")
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} cannot be used together: give {names}")
