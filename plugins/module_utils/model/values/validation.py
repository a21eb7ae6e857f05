# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The forms of names that the API server accepts.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_PREFIX_PART = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_PREFIX = rf"(?=[^/]{{1,253}}/){_PREFIX_PART}(?:\.{_PREFIX_PART})*"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = re.compile(rf"(?:{_PREFIX}/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

NAMESPACE_FORM = "lower case letters, digits and '-', at most 63"
"""A text for errors: the characters of a namespace's name."""


def missing_namespaces_message(missing: Iterable[str], existing: Collection[str]) -> str:
    """Return the error for an option ``namespaces`` that names namespaces that do not exist. It names the most similar ones that exist."""
    from .nearest import nearest_name  # only the error case needs it

    similar = [(name, nearest_name(name, existing)) for name in missing]
    names = ", ".join(f"{name} (the nearest is {near})" if near else name for name, near in similar)
    return f"namespaces: there is no namespace {names}; check the spelling and the cluster (context)"


def is_qualified_name(text: str) -> bool:
    """Return whether the text can be the key of a label, an annotation or a taint."""
    return _QUALIFIED.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Return whether the text can be the value of a label. It may be empty."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_namespace_name(text: str) -> bool:
    """Return whether the text can be the name of a namespace."""
    return _DNS_LABEL.fullmatch(text) is not None
