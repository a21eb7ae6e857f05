# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A reason: a stable code for programs, and a text for people."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """One reason. ``code`` is the same in all versions. ``text`` may be empty if the code is sufficient.

    Results contain it as the text ``code`` or ``code: text``. If the scheduler has a message for the reason, ``text`` is the message of
    version 1.36.
    """

    code: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.text else self.code


def reason_text(reason: t.Optional[Reason]) -> str:
    """Return the reason as it is written in results. It is empty for None."""
    return "" if reason is None else str(reason)


def reason_message(reason: t.Optional[Reason]) -> str:
    """Return the text of the reason, for people. It is empty for None."""
    return "" if reason is None else reason.text


def reason_fields(reason: t.Optional[Reason]) -> dict[str, str]:
    """Return the keys ``reason`` (the code) and ``message`` (the text) of a result. Both are empty for None."""
    return {"reason": "", "message": ""} if reason is None else {"reason": reason.code, "message": reason.text}


Reasons = tuple[Reason, ...]
"""The reasons why a filter rejects a node. Empty if the node passes."""

PASSED: Reasons = ()
