# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of one refresh of a source. Of several series that measure the same, one is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..interface import Query, Series
from ..pauses import Pause, no_pause, with_pauses
from .packed_series import ByNode, Layouts, Numbers, PackedSeries
from .prometheus.label_sets import LabelSet
from .view import UnmappedSeries

MAX_LISTED = 500
"""Unmapped series that are listed. All are counted."""

MAX_SHOWN_PROBLEMS = 5

STALE_DUPLICATE_S = 60.0
"""Seconds by which one of two series that measure the same must be newer to be preferred for this reason."""

WEAK = "a series with the name or address of the node {node} in its own label is used instead"


@dataclass
class Unmapped:
    """The series that belong to no node. ``listed`` has the first ones, ``count`` is the number of all."""

    listed: list[UnmappedSeries] = field(default_factory=list)
    count: int = 0

    def add(self, series: UnmappedSeries) -> None:
        """Count the series, and list it if the list is not full."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(series)


class SeriesCollector:
    """Collects the series of one query by node. Of several series of a node that measure the same, one is used.

    Two servers or two jobs that read the same exporter give such series. The others count as unmapped. If a series has the name or address
    of the node, the series of weak rules (see ``node_mapping.py``) are not used, so that a scraped pod cannot change the values of a node.
    """

    def __init__(self, query: Query, source: str, unmapped: Unmapped) -> None:
        self._query, self._source, self._unmapped = query, source, unmapped
        self._nodes: dict[str, dict[tuple[str, ...], Series]] = {}
        self._own: set[str] = set()
        """The nodes of which a series was mapped by a rule that is not weak."""

    def add(self, node: str, labels: LabelSet, value: float, measured_at_s: float | None) -> None:
        """Add a series of a node."""
        series = Series(labels.labels, value, measured_at_s)
        if labels.is_own and node not in self._own:
            self._own.add(node)
            for weak in self._nodes.pop(node, {}).values():
                self._reject(weak.labels, WEAK.format(node=node))
        elif not labels.is_own and node in self._own:
            self._reject(series.labels, WEAK.format(node=node))
            return
        subjects = self._nodes.setdefault(node, {})
        other = subjects.setdefault(labels.subject, series)
        if other is not series:
            used, unused = (series, other) if _is_preferred(series, other) else (other, series)
            subjects[labels.subject] = used
            self._reject(unused.labels, f"another series of the node {node} measures the same: {_text_of(used.labels)}")

    def add_unmapped(self, labels: LabelSet) -> None:
        """Count a series that belongs to no node. The reason is in the label set."""
        self._reject(labels.labels, labels.why)

    @property
    def has_weak_nodes(self) -> bool:
        """Return whether a node has only series of weak rules."""
        return len(self._nodes) > len(self._own)

    def by_node(self, numbers: Numbers, layouts: Layouts | None = None, pause: Pause = no_pause) -> PackedSeries:
        """Return the series of each node. ``numbers``: those of the refresh. ``layouts``: those of the source.

        The collector is empty afterwards. The objects are freed one node after another: in one step this takes 2 ms and more for
        5,000 nodes, and a request would wait for it.
        """
        nodes = with_pauses(list(self._nodes), pause)
        return PackedSeries(((node, self._nodes.pop(node).values()) for node in nodes), numbers, layouts)

    def _reject(self, labels: Mapping[str, str], why: str) -> None:
        self._unmapped.add(UnmappedSeries(self._source, self._query, labels, why))


def _is_preferred(series: Series, other: Series) -> bool:
    """Return whether the series is used and not the other. Only a great difference of their times counts, so that the choice is stable."""
    newer_s = (series.measured_at_s or -math.inf) - (other.measured_at_s or -math.inf)
    if abs(newer_s) > STALE_DUPLICATE_S:  # false for two series of unknown time
        return newer_s > 0
    return sorted(series.labels.items()) < sorted(other.labels.items())


def _text_of(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))


@dataclass
class Readings:
    """The values that a source has read in one refresh. A query without a line in ``values`` could not be read.

    ``problems``: the errors, each in one sentence. ``numbers``: those of the nodes in ``values``.
    """

    values: dict[Query, ByNode] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)
    unmapped: Unmapped = field(default_factory=Unmapped)
    problems: list[str] = field(default_factory=list)

    @property
    def error(self) -> str:
        """Return the problems in one text, each once and a limited number of them. It is empty if there are none."""
        different = list(dict.fromkeys(self.problems))
        more = len(different) - MAX_SHOWN_PROBLEMS
        return "; ".join([*different[:MAX_SHOWN_PROBLEMS], *([f"{more} more problems"] if more > 0 else [])])
