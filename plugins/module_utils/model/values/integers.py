# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whole numbers in texts that anybody may write: labels, annotations, tolerations."""

from __future__ import annotations

import re
import typing as t

INT64 = range(-(2**63), 2**63)

# Of the characters that Python takes for digits, and of its longest numbers, Kubernetes reads none.
_DECIMAL = re.compile(r"([+-]?)0*([0-9]{1,19})")


def parse_int64(text: str) -> t.Optional[int]:
    """The number, as Go's ``strconv.ParseInt(text, 10, 64)`` reads it; None where it would refuse the text."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if number in INT64 else None
