# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The feasible nodes that the scheduler finds for the pods of a simulation, in a cluster in which it scores only a part of the nodes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ...scheduler.feasibility import FilterRunner
from ...scheduler.node_search import SearchOrder


class SampledSearch:
    """The searches for the pods of one simulation, one after the other. Each begins where the one before has ended.

    ``wanted``: the number of feasible nodes after which a search ends. The order is random, so the first search begins at its first node.
    """

    def __init__(self, order: SearchOrder, wanted: int) -> None:
        self._order = order
        self._wanted = wanted
        self._next = 0

    def find(self, runner: FilterRunner, candidates: tuple[str, ...], *, accept_unknown: bool) -> tuple[str, ...]:
        """Return the feasible nodes that are found for the pod of the runner."""
        local = runner.local_feasibility(candidates)
        if local is None:
            return self._check_one_by_one(runner, frozenset(candidates), accept_unknown=accept_unknown)
        windows = self._order.windows(local.passing, self._wanted)
        window = windows[self._next % len(windows)]
        self._next += 1
        closed, opened = (local.closed, local.opened | local.unknown) if accept_unknown else (local.closed | local.unknown, local.opened)
        found = tuple(name for name in window if name not in closed) if closed else window
        new = opened - frozenset(found) if opened else ()
        return (*found, *(name for name in sorted(new) if self._is_checked(name, window))) if new else found

    def _is_checked(self, name: str, window: tuple[str, ...]) -> bool:
        """Return whether the search that finds the nodes of the window also checks this node."""
        if len(window) < self._wanted:
            return True
        positions = self._order.positions
        begin, end, position = positions[window[0]], positions[window[-1]], positions[name]
        return begin <= position <= end if begin <= end else position >= begin or position <= end

    def _check_one_by_one(self, runner: FilterRunner, candidates: AbstractSet[str], *, accept_unknown: bool) -> tuple[str, ...]:
        names, begin = self._order.names, self._next
        found: list[str] = []
        for checked, name in enumerate((*names[begin:], *names[:begin]), start=1):
            if name not in candidates:
                continue
            reasons, unknown = runner.run_filters(name)
            if reasons or (unknown and not accept_unknown):
                continue
            found.append(name)
            if len(found) == self._wanted:
                self._next = (begin + checked) % len(names)
                break
        return tuple(found)
