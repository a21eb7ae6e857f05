# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of one refresh of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..interface import Query
from .packed_series import ByNode
from .view import UnmappedSeries

MAX_LISTED = 500
"""Unmapped series that are listed. All are counted."""

MAX_SHOWN_PROBLEMS = 5


@dataclass
class Unmapped:
    """The series that belong to no node. ``listed`` has the first ones, ``count`` is the number of all."""

    listed: list[UnmappedSeries] = field(default_factory=list)
    count: int = 0

    def add(self, source: str, query: Query, series: Sequence[tuple[Mapping[str, str], str]]) -> None:
        """Count the series of a query, and list them until the list is full. ``series``: the labels and the reason of each."""
        self.count += len(series)
        self.listed += [UnmappedSeries(source, query, labels, why) for labels, why in series[: MAX_LISTED - len(self.listed)]]


@dataclass
class Readings:
    """The values that a source has read in one refresh. A query without a line in ``values`` could not be read.

    ``problems``: the errors, each in one sentence.
    """

    values: dict[Query, ByNode] = field(default_factory=dict)
    unmapped: Unmapped = field(default_factory=Unmapped)
    problems: list[str] = field(default_factory=list)

    @property
    def error(self) -> str:
        """Return the problems in one text, each once and a limited number of them. It is empty if there are none."""
        different = list(dict.fromkeys(self.problems))
        more = len(different) - MAX_SHOWN_PROBLEMS
        return "; ".join([*different[:MAX_SHOWN_PROBLEMS], *([f"{more} more problems"] if more > 0 else [])])
