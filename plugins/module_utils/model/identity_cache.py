# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A cache of values by the identity of objects, for objects whose hash is slow, such as a tuple of thousands of names."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

V = t.TypeVar("V")


class IdentityCache(t.Generic[V]):
    """The values that were used last, at most ``most``, by the identity of the objects from which they are computed.

    An entry holds its objects. They are not freed as long as the entry exists, so no other object gets their ids. The objects must not
    change. Two equal objects that are not the same one make two entries, which costs time and is never wrong.

    A dict that is asked for every pod of a cluster, such as the loads of ``ClusterState``, follows the same rule without this class. A call
    takes about as long as ten lookups in a dict.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[tuple[Hashable, ...], tuple[tuple[object, ...], V]] = {}

    def get(self, objects: tuple[object, ...], make: t.Callable[[], V], *, key: Hashable = None) -> V:
        """Return the value for exactly these objects and this key. If it is not in the cache, call ``make`` for it."""
        identity = (key, *map(id, objects))
        try:
            entry = self._entries.pop(identity)
        except KeyError:
            entry = objects, make()
            while len(self._entries) >= self._most:
                del self._entries[next(iter(self._entries))]
        self._entries[identity] = entry
        return entry[1]
