# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known name that a person may have meant, for an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SIMILARITY = 0.65
"""The lowest ratio of difflib for a name that is suggested. A name of three letters with one wrong letter has 0.67."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one, or an empty text if none is."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=SIMILARITY)
    return found[0] if found else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error text with the known name that is most like this one, or an empty text if none is."""
    found = nearest_name(name, known)
    return f"; the nearest is {found}" if found else ""
