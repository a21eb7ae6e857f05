# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The errors of FILE, collected: one run names all that do not depend on each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..common.settings import SettingsError


class SettingsErrors(SettingsError):
    """One or several settings cannot be used. ``texts``: a sentence for each."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__("; ".join(texts))
        self.texts = tuple(texts)


class ErrorList:
    """Collects the errors of settings that do not depend on each other."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect the SettingsError that ends the block, and continue after the block."""
        try:
            yield
        except SettingsError as error:
            self.texts += texts_of(error)

    def raise_any(self) -> None:
        """Raise SettingsErrors if there was an error."""
        if self.texts:
            raise SettingsErrors(self.texts)


def texts_of(error: SettingsError) -> tuple[str, ...]:
    """Return a sentence for each setting that cannot be used."""
    return error.texts if isinstance(error, SettingsErrors) else (str(error),)
