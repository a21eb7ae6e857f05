# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The patches of the advice as JSON texts, which ``kubectl patch --patch-file`` takes and people can read."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping

from ..model.reason import Advice
from .rows import Report, Row

_UNWANTED = "`@<>&\x7f"
"""Signs that chats read as markup, also in a block of code, and the one control character that JSON has as it is."""


def patch_text(patch: Mapping[str, t.Any]) -> str:
    """Return the patch as JSON of ASCII signs, one key a line. It has no sign that is markup in a chat."""
    text = json.dumps(patch, indent=2)
    for sign in _UNWANTED:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def advised_patches(report: Report) -> Iterator[tuple[Row, Advice]]:
    """Return each workload with an advice that has a patch, in the order of the report."""
    return ((row, advice) for row in report.rows for advice in row.advice if advice.patch)
