# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of the rows of one answer, so that one exporter does not use the memory for all."""

from __future__ import annotations

import typing as t
from array import array
from collections import Counter
from collections.abc import Sequence

from ...memory_limits import MAX_LINE_BYTES, MAX_SERIES, long_label_violation
from ...pauses import Pause, with_pauses
from .label_sets import LabelSet, LabelSets, Target

TOO_MANY = f"it has more than {MAX_SERIES} series"
TOO_LARGE = "an answer with its series is larger than the limit"


class Crowded(t.NamedTuple):
    """A target whose rows are not used: one of its label sets, and the reason."""

    labels: LabelSet
    why: str


class Rows(t.NamedTuple):
    """The finite values of a vector, with the label set of each. The fields are those of ``VectorRows``."""

    labels: list[LabelSet]
    values: array[float]
    evaluated_at_s: float | None
    crowded: Sequence[Crowded]


class RowLimit:
    """Counts the rows of one answer by target. ``crowded``: the targets of which no row is used."""

    def __init__(self, label_sets: LabelSets) -> None:
        self._label_sets = label_sets
        self._numbers: Counter[Target] = Counter()
        self.crowded: dict[Target, Crowded] = {}

    def admits(self, labels: LabelSet) -> bool:
        """Return whether a row with these labels may be kept."""
        target = self._label_sets.target_of(labels)
        if target in self.crowded:
            return False
        self._numbers[target] += 1
        why = TOO_MANY if self._numbers[target] > MAX_SERIES else _too_long(labels)
        if why:
            self.crowded[target] = Crowded(labels, why)
        return not why

    def without_crowded(self, labels: list[LabelSet], values: array[float], pause: Pause) -> tuple[list[LabelSet], array[float]]:
        """Return the rows without those of crowded targets. Rows of known parts count too."""
        if not self._numbers:
            return labels, values  # all rows were in the last answer
        target_of = self._label_sets.target_of
        numbers: Counter[Target] = Counter()
        for one in with_pauses(labels, pause):
            target = target_of(one)
            numbers[target] += 1
            if numbers[target] > MAX_SERIES:
                self.crowded.setdefault(target, Crowded(one, TOO_MANY))
        if not self.crowded:
            return labels, values
        used = [row for row, one in with_pauses(enumerate(labels), pause) if target_of(one) not in self.crowded]
        return [labels[row] for row in used], array("d", (values[row] for row in used))


def _too_long(labels: LabelSet) -> str:
    if labels.table >= 0:
        return ""  # a label set that was mapped to a node before
    if len(labels.metric) > MAX_LINE_BYTES:
        return f"the labels of a series have more than {MAX_LINE_BYTES} bytes"
    return long_label_violation(labels.labels)
