# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The newest values of all queries. They stay known for some time after a source has failed."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ..interface import Query, Series
from .packed_series import ByNode, Numbers, PackedSeries

KEPT_S = 600.0
"""Seconds for which the last values of a node are kept. Their age grows meanwhile, and an agent's ``max_age_s`` ends their use earlier."""

KEPT_WITHOUT_AGE_S = 90.0
"""Seconds for which values of unknown age are kept after their query was last answered. Nothing else could end their use."""


class _Known(t.NamedTuple):
    read_at_s: float
    by_node: ByNode


class KnownValues:
    """The newest values of each query, with those that are no longer read but not too old yet."""

    def __init__(self) -> None:
        self._known: dict[Query, _Known] = {}

    def update(self, queries: Iterable[Query], values: Mapping[Query, ByNode], now_s: float) -> None:
        """Take over the values of a refresh. Nodes and queries that have no new values keep the last ones for some time.

        The values of other queries than ``queries`` are forgotten.
        """
        before, self._known = self._known, {}
        numbers: Numbers = {}
        for query in queries:
            known, found = before.get(query), values.get(query)
            if found is not None:
                kept = _still_known(_missing(known.by_node, found), now_s) if known is not None else {}
                self._known[query] = _Known(now_s, PackedSeries.of_nodes({**kept, **found}, numbers) if kept else found)
            elif known is not None:
                keeps_ageless = now_s - known.read_at_s < KEPT_WITHOUT_AGE_S
                kept = _still_known(known.by_node.items(), now_s, keeps_ageless=keeps_ageless)
                self._known[query] = _Known(known.read_at_s, PackedSeries.of_nodes(kept, numbers))

    def by_query(self) -> dict[Query, ByNode]:
        """Return the values of each query by node."""
        return {query: known.by_node for query, known in self._known.items()}


def _missing(before: ByNode, by_node: ByNode) -> Iterable[tuple[str, Sequence[Series]]]:
    """Return the nodes that have no new values, with their last ones."""
    if isinstance(by_node, PackedSeries) and by_node.has_nodes_of(before):
        return ()
    return ((node, before[node]) for node in before if node not in by_node)


def _still_known(
    found: Iterable[tuple[str, Sequence[Series]]], now_s: float, *, keeps_ageless: bool = False
) -> dict[str, Sequence[Series]]:
    """Return the nodes with the series that are not too old. Those of unknown age are kept only if ``keeps_ageless``."""
    oldest_s = now_s - KEPT_S

    def is_kept(series: Series) -> bool:
        return keeps_ageless if series.measured_at_s is None else series.measured_at_s > oldest_s

    kept = {node: [series for series in of_node if is_kept(series)] for node, of_node in found}
    return {node: of_node for node, of_node in kept.items() if of_node}
