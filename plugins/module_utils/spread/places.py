# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The places of nodes: their domains for all topology keys, and which places are equal as long as no replica is near."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from .node_groups import OWN, NodeGroups

Place = tuple[t.Optional[str], ...]
"""The domain of a node for each topology key; None where it has none."""


class Touched(t.NamedTuple):
    """The ``places`` in a small domain that holds replicas, and the ``kinds`` that have other places."""

    places: frozenset[Place]
    kinds: list[Place]


class Places:
    """The places of those of ``eligible`` that have all topology keys. Read only.

    ``names``: these nodes. ``by_kind``: the places by what they are with OWN instead of a small domain.
    """

    def __init__(self, eligible: tuple[str, ...], topology_keys: Sequence[str], nodes: NodeGroups) -> None:
        self.eligible = eligible
        columns = [nodes.domains(key) for key in topology_keys]
        self._small = small = [nodes.is_small(key, eligible) for key in topology_keys]
        self._nodes_at: dict[Place, list[str]] = {}
        for name in eligible:
            place = tuple(column[name] for column in columns)
            if None not in place:  # where a key is missing nothing is even
                self._nodes_at.setdefault(place, []).append(name)
        known = {name for there in self._nodes_at.values() for name in there}
        self.names = tuple(name for name in eligible if name in known)
        self._rank = {place: number for number, place in enumerate(self._nodes_at)}
        self.by_kind: dict[Place, list[Place]] = {}
        self._in_small: list[dict[t.Optional[str], list[Place]]] = [{} for _key in topology_keys]
        for place in self._nodes_at:
            self.by_kind.setdefault(self._kind(place), []).append(place)
            for domain, is_small, places in zip(place, small, self._in_small):
                if is_small:
                    places.setdefault(domain, []).append(place)

    def touched(self, counts: Iterable[Mapping[t.Optional[str], int]]) -> Touched:
        """What replicas have touched; ``counts`` are the replicas by domain, for each topology key."""
        places = {place for counted, by_domain in zip(counts, self._in_small) for domain in counted for place in by_domain.get(domain, ())}
        per_kind = Counter(map(self._kind, places))
        kinds = [kind for kind, there in self.by_kind.items() if per_kind[kind] < len(there)]
        return Touched(frozenset(places), kinds)

    def _kind(self, place: Place) -> Place:
        return tuple(OWN if is_small else domain for domain, is_small in zip(place, self._small))

    def nodes_at(self, places: Iterable[Place]) -> list[str]:
        """The nodes at these places, by place in the order of each place's first node."""
        return [name for place in sorted(places, key=self._rank.__getitem__) for name in self._nodes_at[place]]
