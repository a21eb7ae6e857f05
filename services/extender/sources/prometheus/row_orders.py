# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order of the rows of answers.

Prometheus gives the series of a query in the same order in most refreshes. Then the labels of a row are known from its place, and neither
they nor its node have to be found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .label_sets import LabelSet


class RowOrder:
    """The label sets of the rows of an answer. ``metrics``: their bytes. Two answers with the same order have the same object.

    ``mapped_by``: the version of the mapping of nodes by which every row was found to need no host names.
    """

    __slots__ = ("labels", "mapped_by", "metrics")

    def __init__(self, labels: Sequence[LabelSet]) -> None:
        self.labels = labels
        self.metrics = [one.metric for one in labels]
        self.mapped_by = -1

    def __len__(self) -> int:
        return len(self.labels)


NO_ROWS = RowOrder(())


class RowOrders:
    """The orders of the answers of this refresh and of the one before, by the text of the query."""

    def __init__(self) -> None:
        self._used: dict[str, RowOrder] = {}
        self._before: dict[str, RowOrder] = {}

    def before(self, promql: str) -> RowOrder:
        """Return the order of the last answer to a query. It has no rows if it is not known."""
        return self._before.get(promql, NO_ROWS)

    def only(self, promql: str, labels: Sequence[LabelSet]) -> RowOrder:
        """Return the order of a new answer. Queries about the same series have one order."""
        known = dict.fromkeys((self.before(promql), *self._used.values(), *self._before.values()))
        found = next((order for order in known if order.labels == labels), None) or RowOrder(labels)
        self._used[promql] = found
        return found

    def used(self) -> Iterable[LabelSet]:
        """Return the label sets of the answers of this refresh. One that several orders have is returned several times."""
        return (labels for order in dict.fromkeys(self._used.values()) for labels in order.labels)

    def end_refresh(self) -> None:
        """Forget the orders that this refresh did not use."""
        self._before, self._used = self._used, {}
