# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The log lines about pods without a profile. They get equal scores, which looks like a fault if the profile is missing by mistake."""

from __future__ import annotations

from ...common.log import Log

MAX_NAMES, MAX_LENGTH = 50, 253
"""The scheduler names that are logged, and the characters of each. Any pod can have any name, so that both have a limit."""


class UnprofiledPods:
    """Logs each scheduler name without a profile once, up to a number of names."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: set[str] = set()

    def note(self, scheduler_name: str) -> None:
        """Log the name if it is new. It is called for each request about a pod without a profile."""
        shown = scheduler_name[:MAX_LENGTH]
        if len(self._names) >= MAX_NAMES or shown in self._names:
            return
        self._names.add(shown)
        self._log.info(
            "a pod has a schedulerName without a profile in FILE: its nodes get equal scores; the same name is not logged again",
            scheduler_name=shown,
        )
        if len(self._names) == MAX_NAMES:
            self._log.info(f"{MAX_NAMES} names without a profile are logged: further ones are not")
