# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A cache of bounded size that keeps the values that were used last."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

K = t.TypeVar("K", bound=Hashable)
V = t.TypeVar("V")


class BoundedCache(t.Generic[K, V]):
    """The ``most`` values that were used last, by key. ``IdentityCache`` is for keys that are the ids of objects."""

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
