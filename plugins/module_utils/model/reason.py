# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A reason: a stable code for programs, and text for people."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """One reason. ``code`` stays the same over versions; ``text`` may be empty where the code says it all.

    Results carry it as text, ``code`` or ``code: text``; inside it stays in its parts. Where the scheduler has words for it,
    ``text`` is what 1.36 says.
    """

    code: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.text else self.code


def reason_text(reason: t.Optional[Reason]) -> str:
    """The reason as results carry it; empty where there is none."""
    return "" if reason is None else str(reason)


Reasons = tuple[Reason, ...]
"""Empty where a rule has nothing against the node."""

PASSED: Reasons = ()
