# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The errors of FILE, collected: one run names all that do not depend on each other. Each has the path of its setting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ...plugins.module_utils.model.values.shown import shown_key
from ..common.settings import SettingsError

SettingPath = tuple[str | int, ...]
"""The keys and the positions in lists from the top of FILE to a setting, such as ``("profiles", "web", "agents", 0, "weight")``."""


class FileSettingError(SettingsError):
    """A setting of FILE cannot be used. ``problem`` follows the path in the text, for example `` is 0: it must be greater``."""

    def __init__(self, path: SettingPath, problem: str) -> None:
        super().__init__(f"{path_text(path)}{problem}")
        self.path = path


class SettingsErrors(SettingsError):
    """One or several settings cannot be used. ``errors``: an error for each."""

    def __init__(self, errors: Sequence[SettingsError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = tuple(errors)


class ErrorList:
    """Collects the errors of settings that do not depend on each other."""

    def __init__(self) -> None:
        self.errors: list[SettingsError] = []

    def add(self, path: SettingPath, problem: str) -> None:
        """Collect an error of FILE."""
        self.errors.append(FileSettingError(path, problem))

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the SettingsError that ends the block, and continue after the block."""
        try:
            yield
        except SettingsError as error:
            self.errors += errors_of(error)

    def raise_any(self) -> None:
        """Raise SettingsErrors if there was an error."""
        if self.errors:
            raise SettingsErrors(self.errors)


def errors_of(error: SettingsError) -> tuple[SettingsError, ...]:
    """Return an error for each setting that cannot be used."""
    return error.errors if isinstance(error, SettingsErrors) else (error,)


def path_text(path: SettingPath) -> str:
    """Return a path for people, such as ``profiles.web.agents[0].weight``. A key that may contain a password is not shown."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{shown_key(part)}" for part in path)
    return "".join(parts).removeprefix(".")
