# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A wrong value of a setting, as an error message shows it."""

from __future__ import annotations

import datetime
import typing as t
from collections.abc import Mapping

MAX_SHOWN = 60
"""The characters of a value that a message shows."""

_HIDDEN = ("://", "@")
_SHOWN = (str, int, float, datetime.date, type(None))


def shown_value(value: t.Any) -> str:
    """Return the value for a message. A message goes to the log, so a value that may contain a password in a wrong place is not shown.

    Such values are mappings, lists, and texts like a URL. A long text is cut.
    """
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if not isinstance(value, _SHOWN):
        return f"a value of the type {type(value).__name__}"
    if isinstance(value, str) and any(mark in value for mark in _HIDDEN):
        return "a text with :// or @"
    # Python refuses to write a number with thousands of digits.
    if isinstance(value, int) and abs(value) >= 10**MAX_SHOWN:
        return f"a number with more than {MAX_SHOWN} digits"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def shown_key(key: t.Any) -> str:
    """Return a key that is not a setting, for a message. A key like a URL is not shown."""
    text = key if isinstance(key, str) else shown_value(key)
    return "(a key with :// or @)" if any(mark in text for mark in _HIDDEN) else text
