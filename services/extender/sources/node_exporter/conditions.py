# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The conditions of queries on labels, for a source that has no PromQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from ...interface import LabelMatch


def meets(labels: Mapping[str, str], conditions: Iterable[LabelMatch]) -> bool:
    """Return whether the labels of a series meet all conditions. Raises ``re.error`` for a pattern that is not valid."""
    return all(_matches(one.pattern, labels.get(one.label, "")) != one.negative for one in conditions)


@lru_cache(maxsize=16384)
def _matches(pattern: str, value: str) -> bool:
    """Return whether the whole value matches. The same devices are asked for on every node."""
    return re.fullmatch(pattern, value) is not None
