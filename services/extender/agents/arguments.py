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
_PART_OF_PLACE = re.compile(r"\.?(?P<key>\w+)|\[(?P<number>[0-9]+)\]")
_NAME = re.compile(r"\w+")
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


class ArgumentError(ValueError):
    """An argument cannot be used. ``place``: its keys, and its positions in lists. ``problem`` follows the place in the text."""

    def __init__(self, place: tuple[str | int, ...], problem: str) -> None:
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
        super().__init__(f"{''.join(parts)}{problem}".removeprefix(".").removeprefix(": "))
        self.place, self.problem = place, problem


def read_arguments(kind: type[T], args: Mapping[str, t.Any] | None) -> T:
    """Return the struct with the arguments. Raises ArgumentError."""
    given = dict(args or {})
    try:
        return convert(kind, given)
    except DecodeError as error:
        raise _argument_error(kind, given, str(error)) from None


def argument_error(args: Mapping[str, t.Any], text: str) -> ArgumentError:
    """Return the error of an agent about its arguments. Its text begins with the name of the argument, if it is about one."""
    return _with_name(args, (), text)


def _argument_error(kind: t.Any, args: Mapping[str, t.Any], text: str) -> ArgumentError:
    """Return the error for a text of msgspec, which ends with the place of the argument."""
    found = _PLACE.fullmatch(text)
    message, place_text = (found["text"], found["place"] or "") if found else (text, "")
    place = tuple(part["key"] or int(part["number"]) for part in _PART_OF_PLACE.finditer(place_text))
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown:
        return ArgumentError((*place, unknown["field"]), f" is not an argument{_nearest(unknown['field'], kind if not place else None)}")
    missing = _MISSING_FIELD.fullmatch(message)
    if missing:
        return ArgumentError((*place, missing["field"]), " is missing")
    not_listed, allowed = _NOT_LISTED.fullmatch(message), _allowed_values(kind, place_text)
    if not_listed and allowed:
        return ArgumentError(place, f" is {_shown_again(not_listed['value'])}: it must be one of {', '.join(allowed)}")
    other_type = _OTHER_TYPE.fullmatch(message)
    if other_type and place:
        wanted = f"it must be one of {', '.join(allowed)}" if allowed else f"{_types_text(other_type['expected'])} is expected"
        return ArgumentError(place, f" is {_types_text(other_type['found'])}: {wanted}")
    return _with_name(args, place, message)


def _with_name(args: t.Any, place: tuple[str | int, ...], message: str) -> ArgumentError:
    """Return the error of a check after the decoding. The text of such an error begins with the name of a field of the mapping."""
    value = _value_at(args, place)
    name = _NAME.match(message)
    if name and isinstance(value, Mapping) and name[0] in value:
        return ArgumentError((*place, name[0]), message[name.end() :])
    return ArgumentError(place, f": {message}")


def _value_at(value: t.Any, place: tuple[str | int, ...]) -> t.Any:
    """Return the value at a place below another one, or None if there is none."""
    for part in place:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return None
    return value


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
