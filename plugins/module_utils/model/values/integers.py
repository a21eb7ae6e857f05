# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Integers in labels, annotations and tolerations, which can contain any text."""

from __future__ import annotations

import re
import typing as t

INT64 = range(-(2**63), 2**63)

# Python accepts more digit characters and longer numbers than Kubernetes.
_DECIMAL = re.compile(r"([+-]?)0*([0-9]{1,19})")


def parse_int64(text: str) -> t.Optional[int]:
    """Return the number as Go's ``strconv.ParseInt(text, 10, 64)`` parses it. Return None if that function returns an error."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if number in INT64 else None
