# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Parts of messages: counted nouns, texts of the cluster, and missing permissions."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GRANT = re.compile(r"Grant the verb '[a-z]+' on [\w./-]+")
_GRANT_WHERE = re.compile(_GRANT.pattern + r"(?: in namespace [-\w.]+)?")

ROLE_DOCUMENTATION = (
    "The whole role: docs/rebalance.md#permissions, for rescues docs/rescue.md#permissions, for the extender"
    " docs/network-aware-scheduling.md#permissions."
)
"""A text for errors. Usually more verbs are missing than the first one."""


def pluralize(count: int, noun: str) -> str:
    """Return the count and the noun, such as ``1 pod`` or ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str, *, replacement: str = "?") -> str:
    """Return the text without control characters and halves of surrogate pairs, which must not reach a terminal or a page."""
    return "".join(letter if letter.isprintable() else replacement for letter in text)


def missing_permission(text: str) -> str:
    """Return the verb and the resource to grant that a message of ``kube/client/errors.py`` names, without its namespace.

    It is empty if the message names none.
    """
    found = _GRANT.search(text)
    return found.group() if found is not None else ""


def combine_permission_messages(texts: Iterable[str]) -> str:
    """Return one message for several messages about the same missing verb.

    It is the first message. If the messages name different namespaces, a sentence about the others is added.
    """
    given = list(texts)
    asked = {found.group() for found in map(_GRANT_WHERE.search, given) if found is not None}
    return f"{given[0].rstrip('.')}. The others lack the same verb, each in its own namespace." if len(asked) > 1 else given[0]
