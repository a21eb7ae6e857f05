# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Parts of messages: counted nouns, texts of the cluster, and missing permissions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_GRANT = re.compile(r"Grant the verb '[a-z]+' on [\w./-]+")
_GRANT_WHERE = re.compile(_GRANT.pattern + r"(?: in namespace [-\w.]+)?")

SITE = "https://onprem.github.io/kube_scheduling"
"""The address of the guides. A wheel and an installed collection do not have the files."""
ROLE_PAGES = {
    "extender": "docs/network-aware-scheduling.html#permissions",
    "k8s_apply_set": "docs/install.html#rights-of-the-user",
    "k8s_critical_rescue": "docs/rescue.html#permissions",
    "rescuer": "docs/rescuer.html#rights-of-the-role",
    "scheduler_profile": "docs/scheduler-profiles.html#rights-of-the-user",
}
"""The page with the role of a module or a program, by its name. Those that are not here have the role of a check or of a rebalance."""


def pluralize(count: int, noun: str) -> str:
    """Return the count and the noun, such as ``1 pod`` or ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(texts: Iterable[str], most: int) -> str:
    """Return the texts as one: ``a, b and 3 more``. ``most``: so many are named."""
    found = list(texts)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"


def first_texts(texts: Sequence[str], most: int, others: str) -> list[str]:
    """Return the first texts, and one with the number of the others, such as ``3 more nodes``. ``others``: its end."""
    return [*texts[:most], *([f"{len(texts) - most} more {others}"] if len(texts) > most else [])]


def printable(text: str, *, replacement: str = "?") -> str:
    """Return the text without control characters and halves of surrogate pairs, which must not reach a terminal or a page."""
    return "".join(letter if letter.isprintable() else replacement for letter in text)


def role_documentation(user_agent: str = "") -> str:
    """Return a sentence with the address of the role that the module or program needs. Usually it lacks more verbs than the first one.

    ``user_agent``: its name in the audit log, such as ``onprem.kube_scheduling/rescuer``.
    """
    page = ROLE_PAGES.get(user_agent.rpartition("/")[2], "docs/rebalance.html#permissions")
    return f"The whole role: {SITE}/{page}"


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
