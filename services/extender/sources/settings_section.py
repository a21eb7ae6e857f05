# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read one mapping of FILE with checked values. Every error has the whole path of its key."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping

from ....plugins.module_utils.model.values.duration import parse_duration
from ....plugins.module_utils.model.values.nearest import nearest
from ....plugins.module_utils.model.values.shown import shown_key, shown_value
from ..settings_errors import ErrorList, FileSettingError, SettingPath

LONGEST_S = 86_400.0
"""The longest time in seconds that a setting may have: one day."""


class Section:
    """A mapping of FILE, at ``path``.

    The constructor raises FileSettingError if the value is no mapping. All other errors are added to ``errors``, so that one run names
    all of them: a key that is not in ``known``, and a value that cannot be used, for which the default is returned. A key without a value
    counts as absent. ``remedy`` is added to the text about a key that is like none in ``known``.
    """

    def __init__(self, value: t.Any, path: SettingPath, known: tuple[str, ...], errors: ErrorList, *, remedy: str = "") -> None:
        if not isinstance(value, Mapping):
            # A text in place of a mapping may be a whole login, such as user:password.
            found = "a text" if isinstance(value, str) else shown_value(value)
            raise FileSettingError(path, f" is {found}: a mapping with {_listed(known)} is expected")
        for key in value:
            if key not in known:
                errors.add((*path, str(key)), f" is not a setting{_remedy(shown_key(key), known, remedy)}")
        self.path, self.errors = path, errors
        self._values = {key: given for key, given in value.items() if given is not None}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def refuse(self, key: str, problem: str) -> None:
        """Add the error for a key. ``problem`` follows the key, for example ``is 0: it must be greater``."""
        self.errors.add((*self.path, key), f" {problem}")

    def section(self, key: str, known: tuple[str, ...]) -> Section | None:
        """Return the mapping under a key, or None if the key is absent or has no mapping."""
        if key in self._values:
            with self.errors.collected():
                return Section(self._values[key], (*self.path, key), known, self.errors)
        return None

    def text(self, key: str, default: str = "") -> str:
        """Return a text. An empty text is refused."""
        value = self._values.get(key, default)
        if not isinstance(value, str) or (not value and key in self._values):
            self.refuse(key, f"is {shown_value(value)}: a text is expected")
            return default
        return value

    def choice(self, key: str, default: str, allowed: tuple[str, ...]) -> str:
        """Return one of the allowed texts."""
        value = self.text(key, default)
        if value not in allowed:
            self.refuse(key, f"is {shown_value(value)}: it must be one of {_listed(allowed)}")
            return default
        return value

    def switch(self, key: str) -> bool:
        """Return true or false, by default false."""
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            self.refuse(key, f"is {shown_value(value)}: true or false is expected")
            return False
        return value

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """Return a whole number between two limits."""
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(key, f"is {shown_value(value)}: a whole number from {least} to {most} is expected")
            return default
        return value

    def seconds(self, key: str, default: float, least: float, most: float = LONGEST_S) -> float:
        """Return seconds, given as a number or as a text such as ``30s``."""
        value = self._values.get(key, default)
        try:
            seconds = value if isinstance(value, float) else float(parse_duration(value))
        except ValueError as error:
            self.refuse(key, f"cannot be used: {error}")
            return default
        except OverflowError:
            seconds = math.inf
        if not (math.isfinite(seconds) and least <= seconds <= most):
            self.refuse(key, f"is {shown_value(value)}: a time from {least:g} to {most:g} seconds is expected")
            return default
        return seconds

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts. A single text is a list with one entry. A list that is given has at least one entry."""
        if key not in self._values:
            return default
        value = self._values[key]
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, str) and entry for entry in entries):
            self.refuse(key, f"is {shown_value(value)}: a list of texts is expected")
            return default
        return tuple(entries)


def _remedy(key: str, known: tuple[str, ...], remedy: str) -> str:
    return nearest(key, known) or f"; the settings are {_listed(known)}{remedy}"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words)
