# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Colours of the text map on a terminal, as escape sequences of ECMA-48."""

from __future__ import annotations

from ..spread.restart.actions import FAILED_ACTION
from ..spread.verdict import COLLAPSED, HEALTHY, SKIPPED
from .rows import Row

BAD, WARNING, GOOD, DIM, BOLD = "31", "33", "32", "2", "1"
"""The parameters of the sequence: red, yellow, green, faint and bold. Terminals choose the shades."""


class Painter:
    """Adds colours to texts, or returns them as they are if ``color`` is false."""

    def __init__(self, *, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, style: str) -> str:
        """Return the text in a style. Without a style, and for an empty text, it is the same text."""
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style and text.strip() else text


def style_of(row: Row) -> str:
    """Return the style of the state of a workload."""
    if row.action == FAILED_ACTION:
        return BAD
    return {COLLAPSED: BAD, HEALTHY: GOOD, SKIPPED: DIM}.get(row.last.verdict, WARNING)
