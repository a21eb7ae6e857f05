# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The most room that evictions can make on each node, by priorities, options and budgets, for all pods that are equally important.

Most nodes cannot have enough room for a pod that no eviction helps. This index finds the others without a look at single pods. Other rules
are asked only about those.
"""

from __future__ import annotations

import typing as t
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from ..model.api.pod import Pod
from ..model.bounded_cache import BoundedCache
from ..scheduler.cluster_state import ClusterState
from ..scheduler.node_info import NodeInfo
from .budgets import BudgetKey, Budgets
from .options import RescueOptions
from .residents import Resident, Residents, residents_of
from .victims import Importance

MOST_REACHES = 8
"""Sorts of importance of which the rooms are kept from look to look."""

Asked = t.Sequence[tuple[str, int]]
"""What a pod asks for: resources and amounts, in scheduler units."""


class Room(t.NamedTuple):
    """The most that a node can have free: ``amounts`` by resource, in scheduler units, and ``places`` for pods.

    ``leaving``: the pods that may leave. ``residents``: those of whom this was worked out. ``namespaces``: those whose budgets count.
    """

    amounts: Mapping[str, int]
    places: int
    leaving: tuple[Pod, ...]
    residents: Residents
    namespaces: frozenset[str]

    def has(self, asked: Asked) -> bool:
        """There may be enough for a pod that asks for this."""
        amounts = self.amounts
        return self.places > 0 and all(amount <= amounts.get(name, 0) for name, amount in asked)


class Reach:
    """The rooms of all nodes for pods of one importance. ``most``: the greatest number of victims."""

    def __init__(self, importance: Importance, options: RescueOptions) -> None:
        self._importance, self._options = importance, options
        self._rooms: dict[str, Room] = {}
        self._sorted: dict[str, tuple[list[int], list[str]]] = {}
        self._placement: t.Optional[ClusterState] = None
        self._budgets: t.Optional[Budgets] = None
        self._at: tuple[int, int] = (0, 0)

    def follow(self, placement: ClusterState, budgets: Budgets) -> None:
        """Work out anew what another placement, other budgets, or changes in these have changed."""
        at = len(placement.changes), budgets.taken
        if placement is self._placement and budgets is self._budgets and at == self._at:
            return
        changed = budgets.changed_since(self._budgets) if self._budgets is not None else None
        known, options, rooms = self._rooms, self._options, {}
        for name in placement.snapshot.nodes:
            info = placement.info(name)
            residents, room = residents_of(info, options), known.get(name)
            if room is None or room.residents is not residents or changed is None or not room.namespaces.isdisjoint(changed):
                room = self._room(info, residents, budgets)
            rooms[name] = room
        self._rooms, self._sorted = rooms, {}
        self._placement, self._budgets, self._at = placement, budgets, at

    def nodes_with(self, asked: Asked) -> list[str]:
        """The nodes that may have room for this, in no order."""
        found: t.Optional[list[str]] = None
        for name, amount in asked:
            amounts, names = self._by_amount(name)
            first = bisect_left(amounts, amount)
            if found is None or len(names) - first < len(found):
                found = names[first:]
        rooms = self._rooms
        return [name for name in (rooms if found is None else found) if rooms[name].has(asked)]

    def leaving(self, node_name: str) -> tuple[Pod, ...]:
        """The pods of the node that may leave it: all that may be evicted for a pod of this importance are among them."""
        return self._rooms[node_name].leaving

    def _by_amount(self, resource: str) -> tuple[list[int], list[str]]:
        known = self._sorted.get(resource)
        if known is None:
            pairs = sorted((room.amounts.get(resource, 0), name) for name, room in self._rooms.items())
            known = self._sorted[resource] = [amount for amount, _name in pairs], [name for _amount, name in pairs]
        return known

    def _room(self, info: NodeInfo, residents: Residents, budgets: Budgets) -> Room:
        keeps, standing = self._importance.keeps, budgets.standing
        namespaces: set[str] = set()
        leaving: list[tuple[Resident, t.Optional[BudgetKey]]] = []
        for resident in residents.movable:
            if keeps(resident) is None:
                namespaces.add(resident.pod.metadata.namespace)
                refusal, budget = standing(resident.pod, resident.budget_kind)
                if refusal is None:
                    leaving.append((resident, budget))
        amounts = {name: offered - info.requested.get(name, 0) for name, offered in info.allocatable.items()}
        together = self._together(leaving, budgets)
        for name in {name for resident, _budget in leaving for name in resident.load.requests}:
            freed = together([(resident.load.requests.get(name, 0), budget) for resident, budget in leaving])
            amounts[name] = amounts.get(name, -info.requested.get(name, 0)) + freed
        places = info.allowed_pods - len(info.pods) + together([(1, budget) for _resident, budget in leaving])
        return Room(amounts, places, tuple([resident.pod for resident, _budget in leaving]), residents, frozenset(namespaces))

    def _together(
        self, leaving: list[tuple[Resident, t.Optional[BudgetKey]]], budgets: Budgets
    ) -> t.Callable[[list[tuple[int, t.Optional[BudgetKey]]]], int]:
        """How much those of the pods free at most that budgets and the options let go together, by what each of them frees."""
        left = {budget: budgets.left(budget) for _resident, budget in leaving if budget is not None}
        most = len(leaving) if self._options.max_victims is None else self._options.max_victims
        if most >= len(leaving) and all(number >= len(leaving) for number in left.values()):
            return lambda freed: sum([amount for amount, _budget in freed])
        return lambda freed: sum(_most_of(freed, left)[:most])


def _most_of(freed: Iterable[tuple[int, t.Optional[BudgetKey]]], left: Mapping[BudgetKey, int]) -> list[int]:
    """The largest amounts that budgets let go, the largest first."""
    rest, found = dict(left), []
    for amount, budget in sorted(freed, key=lambda one: -one[0]):
        if budget is not None:
            rest[budget] -= 1
            if rest[budget] < 0:
                continue
        found.append(amount)
    return found


class Reaches:
    """One Reach for each importance and each greatest number of victims. They are kept from look to look."""

    def __init__(self) -> None:
        self._known: BoundedCache[tuple[Importance, RescueOptions], Reach] = BoundedCache(MOST_REACHES)

    def of(self, importance: Importance, options: RescueOptions, placement: ClusterState, budgets: Budgets) -> Reach:
        """The rooms in the placement as it is now."""
        reach = self._known.get((importance, options), lambda: Reach(importance, options))
        reach.follow(placement, budgets)
        return reach
