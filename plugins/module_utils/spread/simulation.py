# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Plays a restart through on a copy of the cluster: which pods leave when, and where the new ones would find room.

The scheduler's scores are not simulated: of the feasible nodes the one in the emptiest domain is taken, so the result is the
best that a restart can reach.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from ..model.objects import Pod, Workload, pod_of_workload
from ..model.snapshot import ClusterSnapshot, ordinal
from ..model.wire import replace
from ..scheduling.domains import domain_of
from ..scheduling.feasibility import Feasibility, Judge
from ..scheduling.placement import Placement
from ..scheduling.reasons import Reasons
from .bounds import partition, rollout_bounds, update_strategy_type
from .distribution import Domains, Topology

NOWHERE = 2**31
"""The fullness of nodes without the topology key: a replica there is in no domain, so they come last."""


@dataclass(frozen=True)
class SimulatedRestart:
    """``nodes``: the node of every replica afterwards; ``stuck``: why it would not end, by node, or None; ``first``: where the
    first new pod could go; ``placement``: all pods afterwards."""

    nodes: tuple[str, ...]
    stuck: t.Optional[Feasibility]
    first: Feasibility
    placement: Placement


class _NoRoom(Exception):
    """A new pod finds no node."""

    def __init__(self, feasibility: Feasibility) -> None:
        super().__init__()
        self.feasibility = feasibility


class RestartSimulation:
    """A restart of one workload.

    ``candidates`` are the nodes that may take its pods, in the snapshot's order, ``max_surge`` what quotas leave of the strategy's
    surge. With ``accept_unknown`` nodes that cannot be judged count as feasible, which gives the upper bound.
    """

    def __init__(
        self,
        workload: Workload,
        snapshot: ClusterSnapshot,
        placement: Placement,
        candidates: tuple[str, ...],
        topology: Topology,
        topology_keys: Sequence[str],
        *,
        max_surge: int,
        accept_unknown: bool,
    ) -> None:
        self._workload = workload
        self._snapshot = snapshot
        self._placement = placement.fork()
        self._candidates = candidates
        self._keys = list(topology_keys)
        self._max_surge = max_surge
        self._accept_unknown = accept_unknown
        self._become(pod_of_workload(workload))
        self._new: list[str] = []
        self._per_node: Counter[str] = Counter()
        self._per_domain: list[Counter[str]] = [Counter() for _key in topology_keys]
        self._domains = [topology.over(key, candidates) for key in topology_keys]
        self._first: t.Optional[Feasibility] = None

    def run(self) -> SimulatedRestart:
        """Play the restart to its end, or to the point where a new pod finds no room."""
        stuck: t.Optional[Feasibility] = None
        try:
            if self._workload.kind == "StatefulSet":
                self._replace_by_ordinal()
            elif update_strategy_type(self._workload) == "Recreate":
                self._recreate()
            else:
                self._roll()
        except _NoRoom as error:
            stuck = error.feasibility
        return SimulatedRestart(tuple(self._new), stuck, self._first or Feasibility((), {}, (), {}), self._placement)

    def _old_pods(self) -> list[Pod]:
        return [pod for pod in self._snapshot.owned_pods(self._workload) if not pod.terminal and not pod.terminating]

    def _roll(self) -> None:
        replicas = self._workload.spec.replicas
        bounds = rollout_bounds(self._workload)
        # Pods that never became ready go first: the controller cleans them up before it counts on any other.
        old = sorted(self._old_pods(), key=lambda pod: (pod.ready, bool(pod.spec.node_name)))
        self._count_old(old)
        while len(self._new) < replicas:
            while old and len(old) + len(self._new) > replicas - bounds.max_unavailable:
                self._take_away(old)
            room_for = replicas + self._max_surge - len(old) - len(self._new)
            self._place_some(max(1, min(room_for, replicas - len(self._new))))

    def _take_away(self, old: list[Pod]) -> None:
        # Of ready pods the controller takes one from the node with most of them (ReplicaSet's ranking when scaling down).
        index = max(range(len(old)), key=lambda i: (not old[i].ready, self._per_node[old[i].spec.node_name]))
        self._leave(old.pop(index))

    def _recreate(self) -> None:
        old = self._old_pods()
        self._count_old(old)
        for pod in old:
            self._leave(pod)
        for _number in range(self._workload.spec.replicas):
            self._place()

    def _replace_by_ordinal(self) -> None:
        by_ordinal = {ordinal(pod): pod for pod in self._old_pods()}
        first = self._workload.first_ordinal
        ordinals = range(first, first + self._workload.spec.replicas)
        kept = partition(self._workload)
        for number in ordinals[:kept]:
            if number in by_ordinal:
                self._count(by_ordinal[number].spec.node_name)
        self._count_old(by_ordinal[number] for number in ordinals[kept:] if number in by_ordinal)
        for number in reversed(ordinals[kept:]):
            if number in by_ordinal:
                self._leave(by_ordinal[number])
            self._become(pod_of_workload(self._workload, ordinal=number))
            self._place()

    def _count_old(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._per_node[pod.spec.node_name] += 1

    def _leave(self, pod: Pod) -> None:
        self._placement.remove(pod)
        self._per_node[pod.spec.node_name] -= 1

    def _become(self, pod: Pod) -> None:
        """The pods that come next are like this one."""
        self._pod = pod
        self._judge = Judge(pod, self._placement)

    def _place_some(self, count: int) -> None:
        """At least one; once one is there, an old pod may leave and make way for the others."""
        self._place()
        for _number in range(1, count):
            if not self._try_to_place():
                return

    def _place(self) -> None:
        if not self._try_to_place():
            raise _NoRoom(self._judge.feasibility(self._candidates))

    def _try_to_place(self) -> bool:
        if self._first is None:
            self._first = self._judge.feasibility(self._candidates)
        # One by one, because in a big cluster the answer mostly comes soon.
        node = self._emptiest(filter(self._is_feasible, self._candidates))
        if node is None:
            return False
        self._first = _with_doubts(self._first, self._judge.unknown, node, self._judge.verdict(node)[1])
        number = len(self._new)
        metadata = replace(self._pod.metadata, name=f"simulated-{number}", uid=f"simulated-{self._workload.metadata.uid}-{number}")
        self._placement.assign(replace(self._pod, metadata=metadata), node)
        self._count(node)
        return True

    def _emptiest(self, feasible: Iterable[str]) -> t.Optional[str]:
        """The first node with the least fullness; in a big cluster one comes soon than which none can be emptier."""
        least = self._least_fullness()
        best: t.Optional[tuple[tuple[int, ...], str]] = None
        for node in feasible:
            fullness = self._fullness(node)
            if fullness == least:
                return node
            if best is None or fullness < best[0]:
                best = (fullness, node)
        return best[1] if best is not None else None

    def _count(self, node: str) -> None:
        self._new.append(node)
        self._per_node[node] += 1
        for key, counter in zip(self._keys, self._per_domain):
            domain = self._domain(node, key)
            if domain is not None:
                counter[domain] += 1

    def _fullness(self, node: str) -> tuple[int, ...]:
        """Fewest new replicas in the node's domains, in the order of the topology keys, then fewest pods of the workload."""
        by_key = zip(self._domains, self._per_domain)
        domains = ((over.by_node.get(node), counter) for over, counter in by_key)
        return (*(NOWHERE if domain is None else counter.get(domain, 0) for domain, counter in domains), self._per_node[node])

    def _least_fullness(self) -> tuple[int, ...]:
        """What no candidate can be below."""
        return (*map(self._least, self._domains, self._per_domain), 0)

    @staticmethod
    def _least(over: Domains, counter: Counter[str]) -> int:
        if not over.domains:
            return NOWHERE
        return 0 if len(over.domains) > len(counter) else min(counter[domain] for domain in over.domains)

    def _domain(self, node: str, key: str) -> t.Optional[str]:
        return domain_of(self._snapshot.nodes[node], key) if node in self._snapshot.nodes else None

    def _is_feasible(self, node: str) -> bool:
        if self._judge.unknown and not self._accept_unknown:
            return False
        reasons, doubts = self._judge.verdict(node)
        return not reasons and (self._accept_unknown or not doubts)


def _with_doubts(first: Feasibility, unknown: Reasons, node: str, doubts: Reasons) -> Feasibility:
    """The first answer, with what could not be judged of a node that a later pod took: that must not pass for a yes."""
    if doubts and node not in first.unknown_nodes:
        first = replace_fields(first, unknown_nodes={**first.unknown_nodes, node: doubts})
    if not set(unknown) <= set(first.unknown):
        first = replace_fields(first, unknown=tuple(dict.fromkeys((*first.unknown, *unknown))))
    return first
