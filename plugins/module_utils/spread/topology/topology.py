# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The domains of a snapshot's nodes, computed once for all workloads that have the same eligible nodes."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ...model.api.node import Node
from ...model.caches import IdentityCache
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..distribution import Distribution
from .missing_domain import NO_DOMAIN_CODE
from .node_groups import MAX_KEPT, NodeGroups

if t.TYPE_CHECKING:
    from .domain_tuples import DomainTuples


class EligibleDomains(t.NamedTuple):
    """Eligible nodes, the domain of each that has one, and these domains, sorted and as a set."""

    eligible: tuple[str, ...]
    by_node: dict[str, str]
    domains: tuple[str, ...]
    known: frozenset[str]


class _NamedDomains(t.NamedTuple):
    """The sorted domains of nodes, and the number of nodes without one."""

    names: tuple[str, ...]
    domains: list[str]
    without_label: int


class Topology:
    """The domains of a snapshot's nodes, computed once for all workloads that share their tuple of eligible nodes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.groups = NodeGroups(nodes)
        self._domains: IdentityCache[EligibleDomains] = IdentityCache(MAX_KEPT)
        self._of_names: IdentityCache[_NamedDomains] = IdentityCache(MAX_KEPT)
        self._domain_tuples: IdentityCache[DomainTuples] = IdentityCache(MAX_KEPT)
        self._sets: IdentityCache[frozenset[str]] = IdentityCache(MAX_KEPT)
        self._nested: IdentityCache[bool] = IdentityCache(MAX_KEPT)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> Topology:
        """Return the topology of the snapshot, for ``snapshot.once``."""
        return cls(snapshot.nodes)

    def domain_tuples(self, topology_keys: Sequence[str], eligible: tuple[str, ...]) -> DomainTuples:
        """Return the domain tuples of the eligible nodes."""
        from .domain_tuples import DomainTuples  # only evictions need it

        keys = tuple(topology_keys)
        return self._domain_tuples.get((eligible,), lambda: DomainTuples(eligible, keys, self.groups), key=keys)

    def distribute(self, topology_key: str, node_names: Iterable[str], eligible: tuple[str, ...]) -> Distribution:
        """Count replicas by domain. ``node_names`` has the node of each replica; ``eligible`` are the workload's eligible nodes."""
        over = self.over(topology_key, eligible)
        counts = Counter(map(self.groups.domains(topology_key).get, node_names))
        without_domain = counts.pop(None, 0)
        placed = {domain: counts[domain] for domain in sorted(domain for domain in counts if domain is not None)}
        held = [count for domain, count in placed.items() if domain in over.known]
        return Distribution(
            topology_key=topology_key,
            domains=over.domains,
            placed=placed,
            without_domain=without_domain,
            most=max(held, default=0),
            fewest=min(held, default=0) if len(held) == len(over.domains) else 0,
        )

    def distribute_over(self, topology_keys: Iterable[str], node_names: Iterable[str], eligible: tuple[str, ...]) -> list[Distribution]:
        """Return one distribution for each topology key."""
        names = list(node_names)
        return [self.distribute(key, names, eligible) for key in topology_keys]

    def as_set(self, eligible: tuple[str, ...]) -> frozenset[str]:
        """Return the eligible nodes as a set."""
        return self._sets.get((eligible,), lambda: frozenset(eligible))

    def in_two_domains(self, topology_keys: Iterable[str], node_names: Sequence[str], eligible: tuple[str, ...]) -> bool:
        """Return whether replicas are in two domains of each key that has at least two. All nodes must be eligible and have a domain."""
        for key in topology_keys:
            of_node = self.groups.domains(key)
            first = of_node[node_names[0]]
            if all(of_node[name] == first for name in node_names) and len(self.over(key, eligible).domains) > 1:
                return False
        return True

    def is_nested(self, topology_keys: Sequence[str], eligible: tuple[str, ...]) -> bool:
        """Return whether, of each two keys, the domains of one are parts of the domains of the other, as hosts are of zones."""
        keys = tuple(topology_keys)
        return self._nested.get((eligible,), lambda: all(self._is_pair_nested(*pair, eligible) for pair in combinations(keys, 2)), key=keys)

    def _is_pair_nested(self, one: str, other: str, eligible: tuple[str, ...]) -> bool:
        of_one, of_other = self.groups.domains(one), self.groups.domains(other)
        pairs = {(of_one[name], of_other[name]) for name in eligible}
        return len(pairs) in {len({pair[0] for pair in pairs}), len({pair[1] for pair in pairs})}

    def missing_label_violation(self, topology_keys: Iterable[str], names: tuple[str, ...]) -> t.Optional[Reason]:
        """Return the reason why a new pod may be in no domain: some of the nodes lack the label of a key.

        None if all nodes have all labels.
        """
        for key in topology_keys:
            lacking = self._named(key, names).without_label
            if lacking:
                nodes = f"{lacking} of {len(names)} nodes that are open to it"
                return Reason(NO_DOMAIN_CODE, f"{nodes} have no label {key}; a new pod there would be in no domain: label these nodes")
        return None

    def domains_of(self, topology_key: str, names: tuple[str, ...]) -> list[str]:
        """Return the domains of these nodes, sorted."""
        return self._named(topology_key, names).domains

    def _named(self, topology_key: str, names: tuple[str, ...]) -> _NamedDomains:
        return self._of_names.get((names,), lambda: self._name(topology_key, names), key=topology_key)

    def _name(self, topology_key: str, names: tuple[str, ...]) -> _NamedDomains:
        of_node = self.groups.domains(topology_key)
        found = Counter(of_node[name] for name in names)
        return _NamedDomains(names, sorted(domain for domain in found if domain is not None), found[None])

    def over(self, topology_key: str, eligible: tuple[str, ...]) -> EligibleDomains:
        """Return the domains of the eligible nodes."""
        return self._domains.get((eligible,), lambda: self._over(topology_key, eligible), key=topology_key)

    def _over(self, topology_key: str, eligible: tuple[str, ...]) -> EligibleDomains:
        of_node = self.groups.domains(topology_key)
        domains = ((name, of_node[name]) for name in eligible)
        by_node = {name: domain for name, domain in domains if domain is not None}
        known = frozenset(by_node.values())
        return EligibleDomains(eligible, by_node, tuple(sorted(known)), known)
