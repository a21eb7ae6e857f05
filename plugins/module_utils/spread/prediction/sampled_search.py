# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The feasible nodes that the scheduler finds for the pods of a simulation, in a cluster in which it scores only a part of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from itertools import chain, islice

from ...scheduler.feasibility import FilterRunner
from ...scheduler.node_search import SearchOrder


class SampledSearch:
    """The searches for the pods of one simulation, one after the other.

    ``wanted``: the number of feasible nodes after which a search ends. The first search begins at the first node of the order. With
    ``advances``, each other one begins where the one before has ended. Without it, all begin at the first node: the scheduler has placed
    other pods in between, and has come back to it.
    """

    def __init__(self, order: SearchOrder, wanted: int, *, advances: bool = True) -> None:
        self._order = order
        self._wanted = wanted
        self._advances = advances
        self._next_window = 0
        self._next_position = 0

    def find(self, runner: FilterRunner, candidates: tuple[str, ...], *, accept_unknown: bool) -> tuple[str, ...]:
        """Return the feasible nodes that are found for the pod of the runner."""
        local = runner.local_feasibility(candidates)
        if local is None:
            is_feasible = runner.feasibility_test(candidates, accept_unknown=accept_unknown)
            return self._check_one_by_one(is_feasible, self._order.ordered(candidates))
        windows = self._order.windows(local.passing, self._wanted)
        number = self._next_window % len(windows)
        self._next_window += self._advances
        closed: AbstractSet[str] = local.closed.keys()
        opened = local.opened
        if local.unknown:
            closed, opened = (closed, opened | local.unknown.keys()) if accept_unknown else (closed | local.unknown.keys(), opened)
        window = windows[number]
        if not opened and (not closed or closed.isdisjoint(window)):
            return window
        # The search continues until it has found enough nodes, or has checked all of them.
        found = dict.fromkeys(name for name in window if name not in closed)
        for name in chain.from_iterable(windows[number + 1 :] + windows[:number]):
            if len(found) == self._wanted:
                break
            if name not in closed:
                found[name] = None
        if opened:
            positions, total = self._order.positions, len(self._order.names)
            begin = positions[window[0]] if window else 0
            return tuple(sorted({*found, *opened}, key=lambda name: (positions[name] - begin) % total)[: self._wanted])
        return tuple(found)

    def _check_one_by_one(self, is_feasible: Callable[[str], bool], ordered: tuple[str, ...]) -> tuple[str, ...]:
        begin = self._next_position % max(len(ordered), 1)
        found: list[str] = []
        for checked, name in enumerate(chain(islice(ordered, begin, None), islice(ordered, begin)), start=1):
            if not is_feasible(name):
                continue
            found.append(name)
            if len(found) == self._wanted:
                self._next_position = begin + checked if self._advances else 0
                break
        return tuple(found)
