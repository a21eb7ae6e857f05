# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Groups of nodes that are in the same domains."""

from __future__ import annotations

from ..model.caches import IdentityCache
from ..model.snapshot import ClusterSnapshot

MAX_NODE_LISTS = 16
"""The number of lists of nodes for which groups are kept."""


class DomainGroups:
    """The groups of the nodes of a snapshot, computed once for each list of nodes."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._nodes = snapshot.nodes
        self._groups: IdentityCache[list[list[str]]] = IdentityCache(MAX_NODE_LISTS)
        self._by_domain: IdentityCache[dict[str | None, list[str]]] = IdentityCache(MAX_NODE_LISTS)

    def of(self, names: tuple[str, ...], topology_keys: frozenset[str]) -> list[list[str]]:
        """Return the names in groups. The nodes of a group have equal labels for all topology keys."""
        return self._groups.get((names,), lambda: self._make(names, topology_keys), key=topology_keys)

    def by_domain(self, names: tuple[str, ...], topology_key: str) -> dict[str | None, list[str]]:
        """Return the names of the nodes of each domain, the domain with the most first. None is for the nodes without the key."""
        return self._by_domain.get((names,), lambda: self._make_by_domain(names, topology_key), key=topology_key)

    def _make_by_domain(self, names: tuple[str, ...], topology_key: str) -> dict[str | None, list[str]]:
        groups: dict[str | None, list[str]] = {}
        for name in names:
            groups.setdefault(self._nodes[name].labels.get(topology_key), []).append(name)
        return dict(sorted(groups.items(), key=lambda item: -len(item[1])))

    def _make(self, names: tuple[str, ...], topology_keys: frozenset[str]) -> list[list[str]]:
        groups: dict[tuple[str | None, ...], list[str]] = {}
        for name in names:
            labels = self._nodes[name].labels
            groups.setdefault(tuple([labels.get(key) for key in topology_keys]), []).append(name)
        return list(groups.values())
