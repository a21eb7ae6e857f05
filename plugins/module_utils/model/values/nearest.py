# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known name that a person may have meant, for an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error text with the known name that is most like this one, or an empty text if none is."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; the nearest is {found[0]}" if found else ""
