# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads settings into the types that declare them, and collects all mistakes.

A type is a frozen Struct whose defaults are those of the settings. The type of a field is another Struct, a list or a tuple of one type,
one of some texts (Literal), a text, a number, a switch, or one of these with its Kind (Annotated). ``__post_init__`` may raise ValueError
for settings that cannot be used together. Its text begins with the name of a field.
"""

from __future__ import annotations

import re
import types
import typing as t
from collections.abc import Collection, Iterable, Mapping

from ...plugins.module_utils.model.codec import DecodeError, Struct, convert, fields_of
from ...plugins.module_utils.model.values.nearest import nearest
from ...plugins.module_utils.model.values.shown import shown_key, shown_value
from .kinds import SWITCH, TEXT, Kind, number, one_of, whole

SettingPath = tuple[str | int, ...]
"""The keys and the positions in lists from the top of FILE to a setting, such as ``("profiles", "web", "agents", 0, "weight")``."""

T = t.TypeVar("T")

_PLAIN: Mapping[t.Any, Kind] = {str: TEXT, int: whole(), float: number(), bool: SWITCH}
WRONG: t.Any = object()
"""Stands for a value that cannot be used."""


class SettingsError(ValueError):
    """Settings cannot be used. ``errors``: a sentence for each, with the setting, its origin, and the values that can be used."""

    def __init__(self, *errors: str) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class Mistake(t.NamedTuple):
    """A setting that cannot be used. ``problem`` follows the path in the text, for example `` is 0: it must be greater``.

    The path is empty for a mistake that is not about one setting.
    """

    path: SettingPath
    problem: str

    def __str__(self) -> str:
        """Return the text. A key that may contain a password is not shown."""
        parts = (f"[{part}]" if isinstance(part, int) else f".{shown_key(part)}" for part in self.path)
        return ("".join(parts) + self.problem).removeprefix(".").removeprefix(": ")


class Mistakes(list[Mistake]):
    """All mistakes in some settings."""

    def add(self, path: SettingPath, problem: str) -> None:
        """Add a mistake."""
        self.append(Mistake(path, problem))

    def add_named(self, path: SettingPath, text: str, names: Iterable[str]) -> None:
        """Add a mistake in a mapping whose text begins with the name of the setting, if it is about one."""
        name = re.split(r"\W", text, maxsplit=1)[0]
        if name in names:
            self.add((*path, name), text.removeprefix(name))
        else:
            self.add(path, f": {text}")

    def add_unknown(self, path: SettingPath, given: Iterable[t.Any], known: Collection[str], remedy: str = "") -> None:
        """Add a mistake for each given key that is not known. ``remedy``: the end of the text if no known key is similar."""
        for key in given:
            if key not in known:
                self.add((*path, str(key)), f" is not a setting{nearest(shown_key(key), known) or remedy}")


def read(kind: type[T], value: t.Any, path: SettingPath, mistakes: Mistakes) -> T | None:
    """Return the settings of a mapping at a path. None if they cannot be made, because a mapping or a required setting is wrong.

    A wrong setting that is not required gets its default. A key without a value counts as absent, and a mapping without a value as empty. A
    class may have a ``REMEDY`` for unknown keys.
    """
    fields = {one.encode_name: one for one in fields_of(t.cast(t.Any, kind))}
    value = {} if value is None else value
    if not isinstance(value, Mapping):
        # A text in place of a mapping may be a whole login, such as user:password.
        found = "a text" if isinstance(value, str) else shown_value(value)
        mistakes.add(path, f" is {found}: it must be a mapping with {', '.join(fields)}")
        return None
    listed = f"; the settings are {', '.join(fields)}{getattr(kind, 'REMEDY', '')}" if fields else "; there are no settings here"
    mistakes.add_unknown(path, value, fields, listed)
    values, has_wrong, can_be_made = {}, False, True
    for name, one in fields.items():
        if value.get(name) is None:
            if one.required:
                mistakes.add((*path, name), " is missing")
                can_be_made = False
            continue
        found = read_value(one.type, value[name], (*path, name), mistakes)
        if found is not WRONG:
            values[one.name] = found
        elif one.required or isinstance(value[name], Mapping):
            can_be_made = False
        else:
            has_wrong = True
    if not can_be_made:
        return None
    try:
        return kind(**values)
    except ValueError as error:
        if not has_wrong:
            mistakes.add_named(path, str(error), fields)
        return None


def read_value(kind: t.Any, value: t.Any, path: SettingPath, mistakes: Mistakes) -> t.Any:
    """Return a value of a type, or WRONG."""
    origin, parts = t.get_origin(kind), t.get_args(kind)
    if origin in (t.Union, types.UnionType) and len(parts) == 2 and parts[1] is type(None):
        return read_value(parts[0], value, path, mistakes)
    if isinstance(kind, type) and issubclass(kind, Struct):
        found = read(kind, value, path, mistakes)
        return WRONG if found is None else found
    if origin is list or (origin is tuple and parts[1:] == (...,)):
        return _read_list(origin, parts[0], value, path, mistakes)
    of = kind_of(kind)
    try:
        return of.parse(value)
    except ValueError as error:
        shown = "a text" if of.is_secret and isinstance(value, str) else shown_value(value)
        mistakes.add(path, f" is {shown}: {error}")
        return WRONG


def _read_list(origin: t.Any, kind: t.Any, value: t.Any, path: SettingPath, mistakes: Mistakes) -> t.Any:
    """Return a list or a tuple. A text in place of a list of texts is a list with one entry."""
    is_struct = isinstance(kind, type) and issubclass(kind, Struct)
    entries = [value] if isinstance(value, str) and not is_struct else value
    if not isinstance(entries, list):
        mistakes.add(path, f" is {shown_value(value)}: it must be a list")
        return WRONG
    found = [read_value(kind, one, (*path, number), mistakes) for number, one in enumerate(entries)]
    return WRONG if any(one is WRONG for one in found) else origin(found)


def kind_of(kind: t.Any) -> Kind:
    """Return the kind of a single value of a type. A type that is not known here, such as one of a third party, is left to msgspec."""
    if isinstance(kind, Kind):
        return kind
    for one in getattr(kind, "__metadata__", ()):
        if isinstance(one, Kind):
            return one
    if t.get_origin(kind) is t.Literal:
        return one_of(*t.get_args(kind))
    return _PLAIN.get(kind) or Kind(lambda value: _converted(kind, value))


def _converted(kind: t.Any, value: t.Any) -> t.Any:
    try:
        return convert(kind, value)
    except DecodeError:
        is_other = t.get_origin(kind) is dict and not isinstance(value, Mapping)
        expected = "a mapping" if is_other else f"a value of the type {kind}"
        raise ValueError(f"it must be {expected}") from None
