# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Parts of messages: counted nouns, and permissions that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GRANT = re.compile(r"Grant the verb '[a-z]+' on [\w./-]+")
_GRANT_WHERE = re.compile(_GRANT.pattern + r"(?: in namespace [-\w.]+)?")

ROLE_DOCUMENTATION = "The whole role: docs/rebalance.md#permissions, for rescues docs/rescue.md#permissions."
"""For errors: the first verb that is missing is seldom the only one."""


def pluralize(count: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def missing_permission(text: str) -> str:
    """Return the verb and resource that a message of ``kube/client/errors.py`` asks to grant, in any namespace; empty if none."""
    found = _GRANT.search(text)
    return found.group() if found is not None else ""


def combine_permission_messages(texts: Iterable[str]) -> str:
    """One message for messages about one missing verb: the first, and whether the others ask for it in other namespaces."""
    told = list(texts)
    asked = {found.group() for found in map(_GRANT_WHERE.search, told) if found is not None}
    return f"{told[0].rstrip('.')}. The others lack the same verb, each in its own namespace." if len(asked) > 1 else told[0]
