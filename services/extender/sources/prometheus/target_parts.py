# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rows of a query. If the answer is too large, the query is sent for some targets at a time.

One exporter can have a thousand long series, and a tenant can have any number of pods. The other targets keep their values.
"""

from __future__ import annotations

import typing as t
from array import array
from collections.abc import Callable
from itertools import groupby

from ...memory_limits import MAX_SERIES
from ..http_reader import AnswerTooLargeError
from .label_sets import LabelSet, Target
from .promql import part_text

TOO_MANY = f"it has more than {MAX_SERIES} series"
TOO_LARGE = "an answer with its series is larger than the limit"

MOST_REFUSED = 30
"""The answers to one query that may be too large. The targets of the last ones are unknown, and asked apart in the next refresh."""

ROW_BYTES = 37
"""The least bytes of a series in an answer, beside its labels."""

Counted = tuple[LabelSet, float]
"""A target, and the number of its series."""


class Crowded(t.NamedTuple):
    """A target whose rows are not used: one of its label sets, and the reason."""

    labels: LabelSet
    why: str


class Rows(t.NamedTuple):
    """The finite values of a vector, with the label set of each.

    ``evaluated_at_s``: the time of the evaluation by Prometheus' clock, in seconds since the epoch; None for an empty vector. ``crowded``:
    the targets that have too much, and no row here. ``sent_at_s``: monotonic. The server evaluated the query after this time.
    """

    labels: list[LabelSet]
    values: array[float]
    evaluated_at_s: float | None
    crowded: dict[Target, Crowded]
    sent_at_s: float = 0.0


class TargetParts:
    """Reads the targets in parts. ``node_of`` returns the node of a target, or None."""

    def __init__(self, target_labels: tuple[str, ...], node_of: Callable[[LabelSet], str | None]) -> None:
        self._target_labels, self._node_of = target_labels, node_of
        self._suspects: frozenset[Target] = frozenset()
        """The targets that made an answer too large before."""

    def read(self, promql: str, counted: Rows, limit: int, ask: Callable[[str, int], Rows]) -> Rows:
        """Return the rows of the targets whose answers have at most ``limit`` bytes together. Raises SourceError.

        Targets of nodes are first, and then those with the fewest series. A part whose answer is too large is halved. ``counted``: the
        targets, with their numbers of series. ``ask`` returns the rows of a query with a limit.
        """
        found = Rows([], array("d"), None, dict(counted.crowded))
        targets = sorted(zip(counted.labels, counted.values, strict=True), key=lambda target: (*self._rank(target), target[1]))
        found.crowded.update((one.target, Crowded(one, TOO_MANY)) for one, number in targets if number > MAX_SERIES)
        suspects, refused = self._suspects.intersection(one.target for one in counted.labels), 0
        enough = limit // 4  # many targets could be refused one by one, because each is larger than what is left
        waiting = [list(group) for _rank, group in groupby((one for one in targets if one[1] <= MAX_SERIES), self._rank)][::-1]
        while waiting:
            part, rows = waiting.pop(), None
            if limit > enough and sum(number * (ROW_BYTES + len(one.metric)) for one, number in part) <= limit:
                try:
                    rows = ask(self._text(promql, part), limit)
                except AnswerTooLargeError:
                    refused += 1
            middle = len(part) // 2
            if rows is None and middle and refused < MOST_REFUSED:
                waiting += [part[middle:], part[:middle]]
                continue
            if rows is None:
                found.crowded.update((one.target, Crowded(one, TOO_LARGE)) for one, _number in part)
                suspects |= {one.target for one, _number in part}
                continue
            limit -= sum(ROW_BYTES + len(one.metric) for one in rows.labels)
            found.crowded.update(rows.crowded)
            found.labels.extend(rows.labels)
            found.values.extend(rows.values)
            found = found._replace(evaluated_at_s=found.evaluated_at_s or rows.evaluated_at_s)
        self._suspects = suspects
        return found

    def _rank(self, target: Counted) -> tuple[bool, bool]:
        """Return the place of a target in the order. Targets of nodes come first, and among them those that are not suspects."""
        return self._node_of(target[0]) is None, target[0].target in self._suspects

    def _text(self, promql: str, part: list[Counted]) -> str:
        texts = ([one.labels.get(name, "") for name in self._target_labels] for one, _number in part)
        return part_text(promql, self._target_labels, texts)
