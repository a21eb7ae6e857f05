# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Groups of nodes with equal domains. All nodes of a group have the same load as long as no replica is on them."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence

from ...model.api.node import Node
from ...model.caches import IdentityCache
from ...scheduler.filters.spread_domains import domain_of

SMALL = 16
"""Minimum of nodes per domain on average for a key that makes groups. With fewer there would be almost as many groups as nodes."""

MAX_KEPT = 64
"""Limit of node lists whose groups are cached."""

OWN_DOMAIN = "/"
"""A placeholder for a domain of a key that makes no groups. It is not a valid label value."""

Domain = t.Optional[str]


class Group(t.NamedTuple):
    """A group of nodes with equal domains.

    ``domains`` has the domain for each topology key: None without one, ``OWN_DOMAIN`` if the key makes no groups. ``ruled`` has the domains
    by which a filter about other nodes may reject the whole group. ``nodes`` are in the order of the snapshot.
    """

    domains: tuple[Domain, ...]
    ruled: tuple[tuple[str, Domain], ...]
    nodes: tuple[str, ...]


class Groups:
    """The groups of the open nodes, and the domains of other candidates.

    ``positions`` has the candidates in the order of the snapshot. ``number_of`` has the group number of each open node.
    """

    def __init__(
        self,
        open_nodes: tuple[str, ...],
        candidates: _Candidates,
        columns: tuple[_Column, ...],
        ruled_columns: tuple[_Column, ...],
        small: tuple[_Domains, ...],
    ) -> None:
        # The tuple is kept so that no other tuple gets its id.
        self.open_nodes = open_nodes
        self.positions = candidates.positions
        self._candidates = candidates
        self._columns = columns
        self._ruled_columns = ruled_columns
        self._small = small
        self._in_same_small_domains: dict[str, tuple[str, ...]] = {}
        by_domains: dict[tuple[Domain, ...], list[str]] = {}
        for name in open_nodes:
            by_domains.setdefault(tuple(column.domain(name) for column in (*columns, *ruled_columns)), []).append(name)
        self.groups = tuple(self._group(domains, nodes) for domains, nodes in by_domains.items())
        self.number_of = {name: number for number, group in enumerate(self.groups) for name in group.nodes}

    def in_same_small_domains(self, node: str) -> tuple[str, ...]:
        """Return the candidates in the small domains of the node, including the node if it is a candidate."""
        found = self._in_same_small_domains.get(node)
        if found is None:
            names = {node: None}
            for of_node, nodes in self._small:
                domain = of_node.get(node)
                if domain is not None:
                    names.update(dict.fromkeys(nodes.get(domain, ())))
            found = self._in_same_small_domains[node] = tuple(name for name in names if name in self.positions)
        return found

    def group_of(self, node: str) -> Group:
        """Return the domains of a candidate as a group without nodes."""
        return self._group(tuple(column.domain(node) for column in (*self._columns, *self._ruled_columns)), ())

    def _group(self, domains: tuple[Domain, ...], nodes: Sequence[str]) -> Group:
        keys = len(self._columns)
        ruled = tuple((column.key, domain) for column, domain in zip(self._ruled_columns, domains[keys:]))
        return Group(domains[:keys], ruled, tuple(nodes))


class _Candidates(t.NamedTuple):
    names: tuple[str, ...]
    positions: dict[str, int]


class _Domains(t.NamedTuple):
    of_node: Mapping[str, Domain]
    nodes: Mapping[str, Collection[str]]


class _Column(t.NamedTuple):
    """The domains by which groups are made for one key."""

    key: str
    of_node: Mapping[str, Domain]
    own: bool

    def domain(self, node: str) -> Domain:
        domain = self.of_node[node]
        return OWN_DOMAIN if self.own and domain is not None else domain


class NodeGroups:
    """Makes the groups of a snapshot's nodes, once for all workloads with the same open nodes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._of_node: dict[str, dict[str, Domain]] = {}
        self._candidates: IdentityCache[_Candidates] = IdentityCache(MAX_KEPT)
        self._small: IdentityCache[t.Optional[_Domains]] = IdentityCache(MAX_KEPT)
        self._groups: IdentityCache[Groups] = IdentityCache(MAX_KEPT)

    def domains(self, topology_key: str) -> Mapping[str, Domain]:
        """Return the domain of each node; None for a node without one."""
        found = self._of_node.get(topology_key)
        if found is None:
            found = self._of_node[topology_key] = {name: domain_of(node, topology_key) for name, node in self._nodes.items()}
        return found

    def of(self, candidates: tuple[str, ...], open_nodes: tuple[str, ...], keys: Sequence[str], ruled_keys: Collection[str]) -> Groups:
        """Return the groups of ``open_nodes``, which are a subset of ``candidates``, by the topology keys and by the keys of filters."""
        keys, ruled_keys = tuple(keys), tuple(sorted(ruled_keys))
        return self._groups.get(
            (candidates, open_nodes), lambda: self._make(candidates, open_nodes, keys, ruled_keys), key=(keys, ruled_keys)
        )

    def _make(self, names: tuple[str, ...], open_nodes: tuple[str, ...], keys: Sequence[str], ruled_keys: Sequence[str]) -> Groups:
        candidates = self._candidates_of(names)
        small = {key: domains for key in (*keys, *ruled_keys) for domains in (self._small_domains(key, candidates),) if domains is not None}
        columns = tuple(_Column(key, self.domains(key), key in small) for key in keys)
        ruled_columns = tuple(_Column(key, self.domains(key), False) for key in ruled_keys if key not in small)
        return Groups(open_nodes, candidates, columns, ruled_columns, tuple(small[key] for key in keys if key in small))

    def is_small(self, topology_key: str, names: tuple[str, ...]) -> bool:
        """Return whether the key makes no groups of these nodes."""
        return self._small_domains(topology_key, self._candidates_of(names)) is not None

    def _candidates_of(self, names: tuple[str, ...]) -> _Candidates:
        return self._candidates.get((names,), lambda: _Candidates(names, {name: number for number, name in enumerate(names)}))

    def _small_domains(self, topology_key: str, candidates: _Candidates) -> t.Optional[_Domains]:
        """Return the nodes of each domain if the key makes no groups. None if it makes groups."""
        return self._small.get((candidates,), lambda: self._find_small(topology_key, candidates), key=topology_key)

    def _find_small(self, topology_key: str, candidates: _Candidates) -> t.Optional[_Domains]:
        of_node = self.domains(topology_key)
        nodes: dict[str, list[str]] = {}
        for name in candidates.names:
            domain = of_node[name]
            if domain is not None:
                nodes.setdefault(domain, []).append(name)
        return _Domains(of_node, nodes) if len(nodes) * SMALL > len(candidates.names) else None
