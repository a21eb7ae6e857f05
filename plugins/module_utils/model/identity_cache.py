# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Values by the identity of objects, for objects whose hash is slow, such as a tuple of thousands of names.

An entry holds its objects. They are not freed as long as the entry exists, so no other object gets their ids. The objects must not change.
Two equal objects that are not the same one make two entries, which costs time and is never wrong.
"""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Hashable, Sequence

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


class IdentityCache(t.Generic[V]):
    """The values that were used last, at most ``most``, by the identity of the objects from which they are computed.

    A call takes about as long as ten lookups in an ``IdentityDict``.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: IdentityDict[V] = IdentityDict()

    def get(self, objects: tuple[object, ...], make: t.Callable[[], V], *, key: Hashable = None) -> V:
        """Return the value for exactly these objects and this key. If it is not in the cache, call ``make`` for it."""
        identity = (key, *map(id, objects))
        try:
            value = self._entries.pop(identity)[1]
        except KeyError:
            value = make()
            while len(self._entries) >= self._most:
                del self._entries[next(iter(self._entries))]
        return self._entries.keep(identity, objects, value)
