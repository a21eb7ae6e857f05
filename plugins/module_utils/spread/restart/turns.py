# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The order in which a run takes workloads, so that the workloads of one namespace do not use up ``max_workloads`` for the others.

The namespaces take turns, one workload at a time, with all its evictions. The namespace whose last move is the oldest is first.
The annotations of the workloads have the times of their moves, so the order needs no other state, and it is the same in check mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from ...model.api.workload import Workload
from ...model.values.timestamps import parse_time
from ...state.restart_outcome import FUTURE_TOLERANCE_S, PENDING, read_outcome
from .targets import Target


def in_turns(targets: Iterable[Target], workloads: Iterable[Workload], *, now_s: float) -> list[Target]:
    """Return the targets in the order of their turns. Without earlier moves, the order of a namespace and in it is the given one.

    A move that has not ended is no reason to take its workload later than others of its namespace: they are decided with its result. As
    for the cooldown, an outcome far in the future of ``now_s`` (seconds since the epoch) counts as absent. ``workloads``:
    those of all namespaces of the targets, also the ones that are well spread now.
    """
    namespaces: dict[str, list[Target]] = {}
    for target in targets:
        namespaces.setdefault(target.namespace, []).append(target)
    served_s: dict[str, float] = {}
    ended_s: dict[Target, float] = {}
    for workload in workloads:
        outcome = read_outcome(workload.metadata.annotations)
        at_s = parse_time(outcome.time) if outcome is not None else 0.0
        if outcome is not None and at_s <= now_s + FUTURE_TOLERANCE_S:
            target = Target.of(workload)
            served_s[target.namespace] = max(at_s, served_s.get(target.namespace, 0.0))
            ended_s[target] = 0.0 if outcome.outcome == PENDING else at_s
    first = sorted(namespaces, key=lambda namespace: served_s.get(namespace, 0.0))
    queues = (sorted(namespaces[namespace], key=lambda target: ended_s.get(target, 0.0)) for namespace in first)
    return [target for turn in zip_longest(*queues) for target in turn if target is not None]
