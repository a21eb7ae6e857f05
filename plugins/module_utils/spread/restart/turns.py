# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order in which a run takes workloads, so that the workloads of one namespace take neither the limits nor the time of the others.

The namespaces take turns, one workload at a time. The namespace whose last move is the oldest is first. The annotations of the workloads
have the times of their moves, so the order needs no other state, and it is the same in check mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ...model.api.workload import Workload
from ...model.values.timestamps import parse_time
from ...state.restart_outcome import PENDING, read_outcome
from .targets import Target

MOST_TIMEOUTS, LEAST_LIMIT_S = 6, 600
"""The time that one namespace may take of a run, as a multiple of ``wait_timeout``: 1 hour by default, and 10 minutes at least."""


def in_turns(targets: Iterable[Target], workloads: Iterable[Workload]) -> list[Target]:
    """Return the targets in the order of their turns. Without earlier moves, the order of a namespace and in it is the given one.

    A move that has not ended is no reason to take its workload later than others of its namespace: they are decided with its result.
    ``workloads``: those of all namespaces of the targets, also the ones that are well spread now.
    """
    namespaces: dict[str, list[Target]] = {}
    for target in targets:
        namespaces.setdefault(target.namespace, []).append(target)
    served_s: dict[str, float] = {}
    ended_s: dict[Target, float] = {}
    for workload in workloads:
        outcome = read_outcome(workload.metadata.annotations)
        if outcome is not None:
            target, at_s = Target.of(workload), parse_time(outcome.time)
            served_s[target.namespace] = max(at_s, served_s.get(target.namespace, 0.0))
            ended_s[target] = 0.0 if outcome.outcome == PENDING else at_s
    first = sorted(namespaces, key=lambda namespace: served_s.get(namespace, 0.0))
    queues = (sorted(namespaces[namespace], key=lambda target: ended_s.get(target, 0.0)) for namespace in first)
    return [target for turn in zip_longest(*queues) for target in turn if target is not None]


class NamespaceTimes:
    """The times for which the run has waited for the workloads of each namespace.

    A namespace that has taken the time of one rollout without an end waits until all others were served. After the limit, no other
    of its workloads is moved in this run.
    """

    def __init__(self, wait_timeout_s: int, max_parallel: int) -> None:
        self._first_s = wait_timeout_s * max_parallel
        self._most_s = max(LEAST_LIMIT_S, MOST_TIMEOUTS * self._first_s)
        self._taken_s: dict[str, float] = {}

    def add(self, namespace: str, seconds: float) -> None:
        """Add time to that of the namespace."""
        self._taken_s[namespace] = self._taken_s.get(namespace, 0.0) + seconds

    def in_order(self, targets: Sequence[Target]) -> list[Target]:
        """Return the targets with those of slow namespaces at the end."""
        return sorted(targets, key=lambda target: self._taken_s.get(target.namespace, 0.0) >= self._first_s)

    def shortage(self, namespace: str) -> str:
        """Return a text if the namespace has taken all of its time, or an empty text."""
        taken_s = self._taken_s.get(namespace, 0.0)
        if taken_s < self._most_s:
            return ""
        return f"the workloads of namespace {namespace} have taken {taken_s:.0f} s of this run, and it may take {self._most_s} s"
