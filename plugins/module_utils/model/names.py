# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the API server takes as a name: the forms of https://kubernetes.io/docs/concepts/overview/working-with-objects/names/."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PREFIX = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = re.compile(rf"(?:{_PREFIX}/)?{_NAME}")
_GRANT = re.compile(r"Grant the verb '[a-z]+' on [\w./-]+")
_GRANT_WHERE = re.compile(_GRANT.pattern + r"(?: in namespace [-\w.]+)?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

NAMESPACE_FORM = "lower case letters, digits and '-', at most 63"
"""For errors: of what a namespace's name consists."""

WHOLE_ROLE = "The whole role: docs/rebalance.md#permissions, for rescues docs/rescue.md#permissions."
"""For errors: the first verb that is missing is seldom the only one."""


def not_there(namespaces: Iterable[str]) -> str:
    """What to say where the option ``namespaces`` names some that do not exist."""
    return f"namespaces: there is no namespace {', '.join(namespaces)}; check the spelling and the cluster (context)"


def is_qualified_name(text: str) -> bool:
    """Whether it can be the key of a label, an annotation or a taint."""
    return _QUALIFIED.fullmatch(text) is not None


def is_namespace_name(text: str) -> bool:
    """Whether a namespace can have this name."""
    return _DNS_LABEL.fullmatch(text) is not None


def number_of(count: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def missing_role(text: str) -> str:
    """Return the verb and resource that a message of ``kube/errors.py`` asks to grant, in whatever namespace; empty where there is none."""
    found = _GRANT.search(text)
    return found.group() if found is not None else ""


def missing_everywhere(texts: Iterable[str]) -> str:
    """One message for messages about one missing verb: the first, and whether the others ask for it in other namespaces."""
    told = list(texts)
    asked = {found.group() for found in map(_GRANT_WHERE.search, told) if found is not None}
    return f"{told[0].rstrip('.')}. The others lack the same verb, each in its own namespace." if len(asked) > 1 else told[0]
