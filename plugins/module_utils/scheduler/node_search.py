# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scheduler's search for feasible nodes in clusters in which it scores only a part of them.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (findNodesThatPassFilters, numFeasibleNodesToFind) and
``pkg/scheduler/backend/cache/node_tree.go`` (list). The order of the nodes in the scheduler and the node at which its next search begins
are not in the API. Both are chosen at random here, so a search is one of those that are possible.
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterable, Sequence

from ..model.api.node import Node
from ..model.caches import IdentityCache
from ..model.well_known import REGION, ZONE

MIN_FEASIBLE = 100
MIN_PERCENTAGE = 5
MAX_NODE_LISTS = 16
"""The number of lists of feasible nodes for which the searches of an order are kept."""

OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def nodes_to_find(percentage: int, nodes: int) -> int:
    """Return the number of feasible nodes after which the search ends. ``percentage``: the setting of the profile; 0 means adaptive."""
    if nodes < MIN_FEASIBLE:
        return nodes
    if percentage == 0:
        percentage = max(50 - nodes // 125, MIN_PERCENTAGE)
    return max(nodes * percentage // 100, MIN_FEASIBLE)


def names_by_zone(nodes: Iterable[Node]) -> list[list[str]]:
    """Return the names of the nodes of each zone, as the scheduler's node tree has them."""
    by_zone: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        labels = node.labels
        zone = labels.get(OLD_REGION, labels.get(REGION, "")), labels.get(OLD_ZONE, labels.get(ZONE, ""))
        by_zone.setdefault(zone, []).append(node.name)
    return list(by_zone.values())


def search_order(by_zone: Iterable[Sequence[str]], chance: random.Random) -> tuple[str, ...]:
    """Return the names of the nodes in an order that the scheduler may have: one of each zone in turn."""
    zones = list(map(list, by_zone))
    chance.shuffle(zones)
    for names in zones:
        chance.shuffle(names)
    longest = max(map(len, zones), default=0)
    return tuple(names[number] for number in range(longest) for names in zones if number < len(names))


class SearchOrder:
    """One order in which the scheduler may check the nodes of a snapshot. ``names``: the names of all nodes."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.positions = {name: position for position, name in enumerate(names)}
        self._windows: IdentityCache[tuple[tuple[str, ...], ...]] = IdentityCache(MAX_NODE_LISTS)
        self._ordered: IdentityCache[tuple[str, ...]] = IdentityCache(MAX_NODE_LISTS)

    def ordered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return these nodes in this order. The result is stored by the identity of the tuple."""
        return self._ordered.get((names,), lambda: tuple(sorted(names, key=self.positions.__getitem__)))

    def windows(self, passing: tuple[str, ...], wanted: int) -> tuple[tuple[str, ...], ...]:
        """Return the nodes that successive searches find if these nodes are feasible. The result is stored by the identity of the tuple."""
        return self._windows.get((passing,), lambda: self._make_windows(passing, wanted), key=wanted)

    def _make_windows(self, passing: tuple[str, ...], wanted: int) -> tuple[tuple[str, ...], ...]:
        if len(passing) < wanted:
            return (passing,)
        ordered = self.ordered(passing)
        ordered += ordered[:wanted]
        return tuple(tuple(ordered[begin : begin + wanted]) for begin in range(0, len(passing), wanted))


class SearchOrders:
    """The orders of the nodes of a snapshot for several simulations. Each is made once."""

    def __init__(self, nodes: t.Mapping[str, Node]) -> None:
        self._by_zone = names_by_zone(nodes.values())
        self._orders: dict[int, SearchOrder] = {}

    def of(self, number: int) -> SearchOrder:
        """Return the order with this number."""
        found = self._orders.get(number)
        if found is None:
            found = self._orders[number] = SearchOrder(search_order(self._by_zone, random.Random(number)))
        return found
