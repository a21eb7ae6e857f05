# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A reason: a stable code for programs, and a text for people."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """One reason. ``code`` is the same in all versions. ``text`` may be empty if the code is sufficient.

    Results have the code as ``reason`` and the text as ``message``. If the scheduler has a message for the reason, ``text`` is the message
    of version 1.36.
    """

    code: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" if self.text else self.code


def reason_message(reason: t.Optional[Reason]) -> str:
    """Return the text of the reason, for people. It is empty for None."""
    return "" if reason is None else reason.text


def reason_fields(reason: t.Optional[Reason]) -> dict[str, str]:
    """Return the keys ``reason`` (the code) and ``message`` (the text) of a result. Both are empty for None."""
    return {"reason": "", "message": ""} if reason is None else {"reason": reason.code, "message": reason.text}


class Blocker(t.NamedTuple):
    """A reason that prevents a plan, and the number of nodes where it applies. It is 0 for a reason that is not about nodes."""

    reason: Reason
    nodes: int = 0

    def fields(self) -> dict[str, t.Any]:
        """Return the keys of a result: ``reason``, ``message`` and ``nodes``."""
        return {**reason_fields(self.reason), "nodes": self.nodes}


class Advice(t.NamedTuple):
    """A change that is advised, and the complete patch that makes it. The patch is empty if the change needs a decision of a person."""

    reason: Reason
    patch: t.Mapping[str, t.Any] = {}

    def fields(self) -> dict[str, t.Any]:
        """Return the keys of a result: ``reason``, ``message`` and ``patch``."""
        return {**reason_fields(self.reason), "patch": dict(self.patch)}


Reasons = tuple[Reason, ...]
"""The reasons why a filter rejects a node. Empty if the node passes."""

PASSED: Reasons = ()
