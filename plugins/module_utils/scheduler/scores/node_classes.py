# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Classes of nodes with equal scores, stored once for all pods that the score plugins treat the same."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from ...model.caches import BoundedCache, IdentityCache
from ...model.snapshot import ClusterSnapshot


class NodeClass(t.NamedTuple):
    """All that the score of a node depends on. Nodes with equal classes have equal scores.

    ``local``: the weighted sum of the scores that depend on the node alone. ``parts``: the node part of each other plugin.
    """

    local: int
    parts: tuple[Hashable, ...]


class ClassGroups:
    """Nodes of a snapshot by their common class, of which equal ones are the same object.

    ``names``: the nodes. ``classes``: the class of each of them. ``sizes``: the number of nodes of each class.
    """

    def __init__(self, names: tuple[str, ...], classes: Sequence[NodeClass]) -> None:
        self.members = frozenset(names)
        self._names = names
        self._classes = classes
        self._names_of: dict[NodeClass, tuple[str, ...]] = {}
        # The id of a class has a faster hash than the class.
        by_id = {id(one): one for one in classes}
        self.sizes: Mapping[NodeClass, int] = {by_id[number]: size for number, size in Counter(map(id, classes)).items()}

    def names_of(self, wanted: NodeClass) -> tuple[str, ...]:
        """Return the nodes of a class of ``sizes``, in their order."""
        known = self._names_of.get(wanted)
        if known is None:
            # Few classes are ever the best one.
            known = self._names_of[wanted] = tuple([name for name, one in zip(self._names, self._classes) if one is wanted])
        return known


MAX_SIGNATURES = 64
"""The number of pod signatures for which classes are kept. It bounds the memory if every pod has different requests."""

MAX_NODE_LISTS = 256
"""The number of node lists for which groups are kept, for all signatures together. There are many if the scheduler scores a part of the
nodes."""


class ClassCache:
    """The common classes of the nodes of a snapshot, for the pod signatures that were used last."""

    def __init__(self, _snapshot: ClusterSnapshot) -> None:
        self._signatures: BoundedCache[Hashable, CommonClasses] = BoundedCache(MAX_SIGNATURES)
        self._parts: BoundedCache[Hashable, dict[str, tuple[Hashable, ...]]] = BoundedCache(MAX_SIGNATURES)
        self._groups: IdentityCache[ClassGroups] = IdentityCache(MAX_NODE_LISTS)

    def of(self, allocations: Hashable, relative: Hashable) -> CommonClasses:
        """Return the classes for all pods with these signatures: of the allocation scores, and of the plugins that compare nodes."""
        parts = self._parts.get(relative, dict)
        return self._signatures.get((allocations, relative), lambda: CommonClasses(parts, self._groups))


class CommonClasses:
    """The classes of nodes as the snapshot has them, without what depends on the single pod: its images, and the pods that it counts.

    ``by_node``: the classes by node name. ``parts``: the node parts by node name, for all pods with the same plugins that compare nodes.
    The scorers of the pods add entries to ``parts``. ``groups``: the cache for the groups of node lists.
    """

    def __init__(self, parts: dict[str, tuple[Hashable, ...]], groups: IdentityCache[ClassGroups]) -> None:
        self.by_node: dict[str, NodeClass] = {}
        self.parts = parts
        self._classes: dict[NodeClass, NodeClass] = {}
        self._groups = groups

    def add(self, name: str, found: NodeClass) -> NodeClass:
        """Add the class of a node. Return the same object for equal classes, because a cluster has few different ones."""
        shared = self.by_node[name] = self._classes.setdefault(found, found)
        return shared

    def groups(self, names: tuple[str, ...], class_of: t.Callable[[str], NodeClass]) -> ClassGroups:
        """Return the groups of these nodes, which are computed once for each tuple. ``class_of``: returns the common class of a node."""
        return self._groups.get((names, self), lambda: self._grouped(names, class_of))

    def _grouped(self, names: tuple[str, ...], class_of: t.Callable[[str], NodeClass]) -> ClassGroups:
        by_node = self.by_node
        return ClassGroups(names, [by_node.get(name) or class_of(name) for name in names])
