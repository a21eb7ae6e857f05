# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Caches of bounded size, and values by the identity of objects whose hash is slow, such as a tuple of thousands of names.

An entry by identity holds its objects. They are not freed as long as the entry exists, so no other object gets their ids. The objects must
not change. Two equal objects that are not the same one make two entries, which costs time and is never wrong.
"""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Hashable, Sequence

K = t.TypeVar("K", bound=Hashable)
V = t.TypeVar("V")


def are_same_objects(some: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether the two sequences have the same objects in the same order."""
    return some is others or (len(some) == len(others) and all(map(operator.is_, some, others)))


class IdentityDict(dict[t.Any, tuple[object, V]], t.Generic[V]):
    """Values by keys that contain the ids of objects, for code that is called for every pod of a cluster. Nothing is removed from it.

    ``get(key)`` is the method of ``dict``: it returns None, or an entry whose second part is the value. Entries are added with ``keep``
    only.
    """

    def keep(self, key: Hashable, objects: object, value: V) -> V:
        """Return the value, and store it with the objects whose ids are in the key. One object may hold the others."""
        self[key] = objects, value
        return value


class BoundedCache(t.Generic[K, V]):
    """The ``most`` values that were used last, by key."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[K, V] = {}

    def get(self, key: K, make: t.Callable[[], V]) -> V:
        """Return the value of the key. If the key is not in the cache, call ``make`` for the value."""
        try:
            value = self._values.pop(key)
        except KeyError:
            value = make()
            while len(self._values) >= self._most:
                del self._values[next(iter(self._values))]
        self._values[key] = value
        return value


class IdentityCache(t.Generic[V]):
    """The values that were used last, at most ``most``, by the identity of the objects from which they are computed.

    A call takes about as long as ten lookups in an ``IdentityDict``.
    """

    def __init__(self, most: int) -> None:
        self._entries: BoundedCache[Hashable, tuple[object, V]] = BoundedCache(most)

    def get(self, objects: tuple[object, ...], make: t.Callable[[], V], *, key: Hashable = None) -> V:
        """Return the value for exactly these objects and this key. If it is not in the cache, call ``make`` for it."""
        return self._entries.get((key, *map(id, objects)), lambda: (objects, make()))[1]
