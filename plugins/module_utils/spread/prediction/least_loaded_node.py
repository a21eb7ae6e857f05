# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node for the next pod of a simulated restart: the feasible node whose domains have the fewest new replicas."""

from __future__ import annotations

import heapq
import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence

from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ..topology.node_groups import OWN_DOMAIN, Group, NodeGroups

NO_DOMAIN_LOAD = 2**31
"""The load of nodes without the topology key. A replica there is in no domain, so these nodes are last."""

NodeLoad = tuple[int, ...]

OwnDomainCounts = tuple[tuple[Mapping[str, t.Optional[str]], Counter[str]], ...]


class ReplicaCounts:
    """The replicas of a simulated restart: new ones by topology key and domain, and all present ones by node."""

    def __init__(self, nodes: NodeGroups, topology_keys: Sequence[str]) -> None:
        self.keys = tuple(topology_keys)
        self.per_domain: list[Counter[str]] = [Counter() for _key in self.keys]
        self.per_node: Counter[str] = Counter()
        self._domains = [nodes.domains(key) for key in self.keys]

    def add(self, node: str) -> None:
        """Count a new replica on the node."""
        self.per_node[node] += 1
        for of_node, counter in zip(self._domains, self.per_domain):
            domain = of_node.get(node)
            if domain is not None:
                counter[domain] += 1

    def load_of(self, domains: Sequence[t.Optional[str]], own: Sequence[int], replicas: int) -> NodeLoad:
        """Return the new replicas in a node's domains in the order of the topology keys, then the replicas on the node.

        ``own`` has the counts of the domains that are ``OWN_DOMAIN``, in their order.
        """
        left = iter(own)
        counts = []
        for domain, counter in zip(domains, self.per_domain):
            if domain is None:
                counts.append(NO_DOMAIN_LOAD)
            else:
                counts.append(next(left) if domain == OWN_DOMAIN else counter.get(domain, 0))
        return (*counts, replicas)

    def own(self, domains: Sequence[t.Optional[str]]) -> OwnDomainCounts:
        """Return the domain of each node and the new replicas by domain, for each key that is ``OWN_DOMAIN`` in ``domains``."""
        found = zip(domains, self._domains, self.per_domain)
        return tuple((of_node, counter) for domain, of_node, counter in found if domain == OWN_DOMAIN)


class _Part:
    """A group, the next untouched node to check, and a heap of its touched nodes."""

    __slots__ = ("group", "heap", "next", "own")

    def __init__(self, group: Group, own: OwnDomainCounts) -> None:
        self.group = group
        self.own = own
        self.next = 0
        self.heap: list[_Touched] = []


class _Touched(t.NamedTuple):
    """The values by which a touched node differs from others of its group."""

    in_own_domains: tuple[int, ...]
    replicas: int
    position: int
    node: str


class _Found(t.NamedTuple):
    load: NodeLoad
    position: int
    node: str


class LeastLoadedNode:
    """Finds the node for pods like the FilterRunner's: the feasible candidate with the lowest load, and the first of equal ones.

    Most candidates are untouched: they have no change, no replica of the workload, and no replica in a small domain of theirs. Only the
    first feasible untouched node of each group is compared. Touched nodes are compared one by one.
    """

    def __init__(
        self,
        filter_runner: FilterRunner,
        cluster_state: ClusterState,
        candidates: tuple[str, ...],
        nodes: NodeGroups,
        counts: ReplicaCounts,
        *,
        accept_unknown: bool,
    ) -> None:
        self._filter_runner = filter_runner
        self._cluster_state = cluster_state
        self._counts = counts
        self._accept_unknown = accept_unknown
        self._known = nodes.of(candidates, filter_runner.passing_node_local_filters(candidates), counts.keys, filter_runner.topology_keys)
        self._parts = [_Part(group, counts.own(group.domains)) for group in self._known.groups]
        self._part_of: dict[str, _Part] = {}
        self._nothing = (0,) * len(counts.keys)
        self._generation = filter_runner.generation
        self._seen = 0
        for node in counts.per_node:
            self._touch(node)

    def find(self) -> t.Optional[str]:
        """Return the feasible node with the lowest load. None if no candidate is feasible."""
        if self._filter_runner.unknown and not self._accept_unknown:
            return None
        self._apply_changes()
        load_of, nothing = self._counts.load_of, self._nothing
        bounds = sorted([(load_of(part.group.domains, nothing, 0), number) for number, part in enumerate(self._parts)])
        best: t.Optional[_Found] = None
        for bound, number in bounds:
            if best is not None and bound > best.load:
                break
            part = self._parts[number]
            if part.group.ruled and any(self._filter_runner.rejects_domain(key, domain) for key, domain in part.group.ruled):
                continue
            for found in (self._best_touched(part), self._best_untouched(part, bound)):
                if found is not None and (best is None or found < best):
                    best = found
        return best.node if best is not None else None

    def _apply_changes(self) -> None:
        """Apply the changes of the cluster state since the last call."""
        changes = self._cluster_state.changes
        for number in range(self._seen, len(changes)):
            self._touch(changes[number].node_name)
        self._seen = len(changes)
        if self._filter_runner.generation != self._generation:
            # A filter that depends on other nodes may accept nodes again that it had rejected.
            self._generation = self._filter_runner.generation
            for part in self._parts:
                part.next, part.heap = 0, []
            for node, part in self._part_of.items():
                heapq.heappush(part.heap, self._touched(node, part))

    def _touch(self, node: str) -> None:
        for other in self._known.in_same_small_domains(node):
            part = self._part_of.get(other)
            if part is None:
                part = self._part_of[other] = self._find_part(other)
            heapq.heappush(part.heap, self._touched(other, part))

    def _find_part(self, node: str) -> _Part:
        number = self._known.number_of.get(node)
        if number is not None:
            return self._parts[number]
        group = self._known.group_of(node)
        for part in self._parts:
            if part.group.domains == group.domains and part.group.ruled == group.ruled:
                return part
        self._parts.append(_Part(group, self._counts.own(group.domains)))
        return self._parts[-1]

    def _touched(self, node: str, part: _Part) -> _Touched:
        # ``get`` is faster, because a Counter handles missing keys by a method in Python.
        in_own_domains = tuple([counter.get(of_node[node] or "", 0) for of_node, counter in part.own])
        return _Touched(in_own_domains, self._counts.per_node.get(node, 0), self._known.positions[node], node)

    def _best_touched(self, part: _Part) -> t.Optional[_Found]:
        heap = part.heap
        while heap:
            top = heap[0]
            now = self._touched(top.node, part)
            if now != top:
                heapq.heapreplace(heap, now)
            elif self._filter_runner.is_feasible(top.node, accept_unknown=self._accept_unknown):
                return _Found(self._counts.load_of(part.group.domains, top.in_own_domains, top.replicas), top.position, top.node)
            else:
                heapq.heappop(heap)  # a later change marks the node as touched again
        return None

    def _best_untouched(self, part: _Part, load: NodeLoad) -> t.Optional[_Found]:
        nodes, position, touched, runner = part.group.nodes, part.next, self._part_of, self._filter_runner
        while position < len(nodes) and (
            nodes[position] in touched or not runner.is_feasible(nodes[position], accept_unknown=self._accept_unknown)
        ):
            position += 1
        part.next = position
        return _Found(load, self._known.positions[nodes[position]], nodes[position]) if position < len(nodes) else None
