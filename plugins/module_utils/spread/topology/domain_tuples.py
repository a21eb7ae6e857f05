# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Domain tuples of nodes: their domains for all topology keys. Tuples are grouped in kinds that are equal as long as no replica is near."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .node_groups import OWN_DOMAIN, NodeGroups

DomainTuple = tuple[t.Optional[str], ...]
"""The domain of a node for each topology key; None for a key that the node lacks."""


class TouchedTuples(t.NamedTuple):
    """The ``domain_tuples`` in a small domain that holds replicas, and the ``kinds`` that have other domain tuples."""

    domain_tuples: frozenset[DomainTuple]
    kinds: list[DomainTuple]


class DomainTuples:
    """The domain tuples of the ``eligible`` nodes that have all topology keys.

    Read only. ``names`` are these nodes. ``by_kind`` has the domain tuples by kind. A kind has ``OWN_DOMAIN`` instead of a small domain.
    """

    def __init__(self, eligible: tuple[str, ...], topology_keys: Sequence[str], nodes: NodeGroups) -> None:
        self.eligible = eligible
        columns = [nodes.domains(key) for key in topology_keys]
        self._small = small = [nodes.is_small(key, eligible) for key in topology_keys]
        self._nodes_at: dict[DomainTuple, list[str]] = {}
        for name in eligible:
            domain_tuple = tuple(column[name] for column in columns)
            if None not in domain_tuple:  # no replica may move to a node that lacks a key
                self._nodes_at.setdefault(domain_tuple, []).append(name)
        known = {name for there in self._nodes_at.values() for name in there}
        self.names = tuple(name for name in eligible if name in known)
        self._rank = {domain_tuple: number for number, domain_tuple in enumerate(self._nodes_at)}
        self.by_kind: dict[DomainTuple, list[DomainTuple]] = {}
        self._in_small: list[dict[t.Optional[str], list[DomainTuple]]] = [{} for _key in topology_keys]
        for domain_tuple in self._nodes_at:
            self.by_kind.setdefault(self._kind(domain_tuple), []).append(domain_tuple)
            for domain, is_small, domain_tuples in zip(domain_tuple, small, self._in_small):
                if is_small:
                    domain_tuples.setdefault(domain, []).append(domain_tuple)

    def touched(self, counts: Iterable[Mapping[t.Optional[str], int]]) -> TouchedTuples:
        """Return the domain tuples that replicas have touched. ``counts`` are the replicas by domain, for each topology key."""
        domain_tuples = {
            domain_tuple
            for counted, by_domain in zip(counts, self._in_small)
            for domain in counted
            for domain_tuple in by_domain.get(domain, ())
        }
        per_kind = Counter(map(self._kind, domain_tuples))
        kinds = [kind for kind, there in self.by_kind.items() if per_kind[kind] < len(there)]
        return TouchedTuples(frozenset(domain_tuples), kinds)

    def _kind(self, domain_tuple: DomainTuple) -> DomainTuple:
        return tuple(OWN_DOMAIN if is_small else domain for domain, is_small in zip(domain_tuple, self._small))

    def nodes_at(self, domain_tuples: Iterable[DomainTuple]) -> list[str]:
        """Return the nodes with these domain tuples. Domain tuples are in the order of their first node."""
        return [name for domain_tuple in sorted(domain_tuples, key=self._rank.__getitem__) for name in self._nodes_at[domain_tuple]]
