# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The errors of FILE, collected: one run names all that do not depend on each other. Each has the path of its setting."""

from __future__ import annotations

from ...plugins.module_utils.model.values.shown import shown_key
from ..common.settings import ErrorCollector, SettingsError

SettingPath = tuple[str | int, ...]
"""The keys and the positions in lists from the top of FILE to a setting, such as ``("profiles", "web", "agents", 0, "weight")``."""


class FileSettingError(SettingsError):
    """A setting of FILE cannot be used. ``problem`` follows the path in the text, for example `` is 0: it must be greater``."""

    def __init__(self, path: SettingPath, problem: str) -> None:
        super().__init__(f"{path_text(path)}{problem}")
        self.path = path


class ErrorList(ErrorCollector):
    """Collects the errors of FILE by their paths."""

    def add(self, path: SettingPath, problem: str) -> None:
        """Collect an error of FILE."""
        self.errors.append(FileSettingError(path, problem))


def path_text(path: SettingPath) -> str:
    """Return a path for people, such as ``profiles.web.agents[0].weight``. A key that may contain a password is not shown."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{shown_key(part)}" for part in path)
    return "".join(parts).removeprefix(".")
