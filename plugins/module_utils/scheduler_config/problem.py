# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A problem of a configuration: its place, what is wrong, and what to do."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

INVALID = "invalid"
"""kube-scheduler does not start with it."""
UNSAFE = "unsafe"
"""kube-scheduler accepts it in a check of the file, and then fails or never does what the setting is for."""
UNKNOWN_FIELD = "unknown_field"
"""The table lacks the field. kube-scheduler refuses a field that it does not know."""
NEEDS_GATE = "needs_gate"
"""kube-scheduler refuses it unless a feature gate is on that is off by default."""
HARMFUL = "harmful"
"""It is legal, and its effect is probably not intended."""

SHOWN_PROBLEMS = 10


class Problem(t.NamedTuple):
    """One problem. ``path`` is written as in the errors of kube-scheduler, such as ``profiles[0].schedulerName``."""

    path: str
    message: str
    remedy: str
    kind: str = INVALID

    def __str__(self) -> str:
        return f"{self.path}: {self.message}; {self.remedy}"

    @property
    def is_refused_by_scheduler(self) -> bool:
        """Return whether kube-scheduler refuses it with any feature gates."""
        return self.kind in (INVALID, UNKNOWN_FIELD)


class SchedulerConfigError(Exception):
    """The wanted configuration is refused. Nothing may be written."""


def problems_text(problems: Iterable[Problem]) -> str:
    """Return the text of an error for some problems. Of many problems it has the first ones."""
    texts = [str(problem) for problem in problems]
    more = len(texts) - SHOWN_PROBLEMS
    return "\n".join([*texts[:SHOWN_PROBLEMS], *([f"and {more} more"] if more > 0 else [])])
