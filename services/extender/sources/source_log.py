# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The log lines of the sources. A problem is logged when it begins and when it ends, and a fact of the configuration once."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...common.log import Log

_NUMBER = re.compile(r"[0-9]+")
"""Matches the part of an error that differs each time, such as a number of seconds."""

MAX_ONCE = 1000
"""Different texts that are remembered. A source whose texts always differ would otherwise fill the memory and the log."""


class SourceLog:
    """Writes the log lines of the sources. Thread-safe: every method is one step or is called by one thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._errors: dict[str, str] = {}
        self._once: set[str] = set()

    def errors(self, errors: Mapping[str, str]) -> None:
        """Log the errors that are new or have changed, and the sources whose error has ended."""
        kinds = {source: _NUMBER.sub("", text) for source, text in errors.items()}
        for source, text in errors.items():
            if self._errors.get(source) != kinds[source]:
                self._log.warning("a source has a problem", source=source, text=text)
        for source in self._errors:
            if source not in errors:
                self._log.info("the source has no problem any more", source=source)
        self._errors = kinds

    def once(self, message: str, **fields: str) -> None:
        """Log a warning, unless it was logged before."""
        key = f"{message} {sorted(fields.items()) if 'example' not in fields else ''}"
        if key not in self._once and len(self._once) < MAX_ONCE:
            self._once.add(key)
            self._log.warning(message, **fields)

    def warned(self, text: str) -> None:
        """Log a warning of Prometheus, unless it was logged before."""
        self.once("the source prometheus has a warning", text=text)

    def failed(self, what: str, error: Exception) -> None:
        """Log an error of the program itself, which must not end the thread."""
        self._log.error(f"{what}: {type(error).__name__}: {error}", cause=error)
