# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The changed files that the running program could not take over, for the pages."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable, Mapping, Sequence

FILE_FAULT = "FILE cannot be used: the previous settings stay in use"
CERTIFICATE_FAULT = "the certificate cannot be used: the one before stays in use"


class Fault(t.NamedTuple):
    """A file that cannot be used. ``since_s``: the time when this was noticed first, in seconds since 1970. ``errors``: a text for each."""

    text: str
    since_s: float
    errors: Sequence[str]


class ReloadFaults:
    """The faults of now. One thread at a time changes them, and any thread can read them. ``clock``: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._faults: Mapping[str, Fault] = {}

    @property
    def current(self) -> Sequence[Fault]:
        """Return the faults, the oldest first."""
        return tuple(self._faults.values())

    def note(self, text: str, errors: Sequence[str]) -> bool:
        """Keep a fault. If it is known, its errors are replaced, and its time stays. Return whether the errors are new."""
        known = self._faults.get(text)
        fault = Fault(text, known.since_s if known is not None else self.clock(), tuple(errors))
        self._faults = {**self._faults, text: fault}
        return fault != known

    def remove(self, text: str) -> None:
        """Remove a fault, because the file can be used again."""
        self._faults = {name: fault for name, fault in self._faults.items() if name != text}
