# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The arguments that several agents have."""

from __future__ import annotations

import re
import typing as t

from ....plugins.module_utils.model.codec import Struct
from ...common.kinds import Kind, number, seconds

# Prometheus has RE2, which has neither assertions about neighbours nor references to groups.
_NOT_IN_RE2 = re.compile(r"\(\?(=|!|<=|<!|>|\(|P=)|\\[1-9]|[*+?}]\+")


def _pattern(value: t.Any) -> str:
    """Return a regular expression that both Python and Prometheus (RE2) can use. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError("it must be a regular expression, as a text")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    if _NOT_IN_RE2.search(value):
        raise ValueError("Prometheus has no look-ahead, look-behind, possessive repeats or references to groups")
    return value


Pattern = t.Annotated[str, Kind(_pattern)]
Seconds = t.Annotated[int, seconds()]
Percent = t.Annotated[float, number(0, 100)]


class ValueAgeArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of an agent that reads measured values. ``max_age_s``: older values are unknown. An agent can have another default."""

    max_age_s: Seconds = 300
