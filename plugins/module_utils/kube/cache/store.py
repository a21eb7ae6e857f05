# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A store: the newest state of one resource, kept up to date by a watch.

An object that cannot be decoded replaces its earlier version, until a later version can be decoded.

``decode_page`` and ``decode_event`` only decode, so they run without a lock. Methods that change a store (``replace``, ``apply``) or read
it (``items``, ``view``) are called under the lock of the cache that the store belongs to.
"""

from __future__ import annotations

import typing as t

from ...model.api.node import Node
from ...model.codec import force_setattr
from ...model.interning import Interner
from ...model.undecodable import Undecodable, undecodable_of
from ..client.resources import Resource

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

LEAST_PARTS = 10_000
"""If an interner has fewer parts than this, unused parts are kept. A search for them needs a pass over all objects."""

T = t.TypeVar("T")


class Store:
    """Objects by ``key_of``. ``field_selector``: only the objects that it selects are read.

    ``version`` grows with every change of a field that the structs have. Other writes, such as heartbeats, do not change it.
    """

    def __init__(self, resource: Resource, field_selector: str = "") -> None:
        self.resource, self.field_selector = resource, field_selector
        self.version = 0
        self._items: dict[str, t.Any] = {}
        self._undecodable: dict[str, Undecodable] = {}
        self._views: dict[t.Callable[[t.Any], t.Any], tuple[int, t.Any]] = {}

    def decode_page(self, data: bytes) -> list[t.Any]:
        """Return the objects of one page of a list. An unchanged object is the one that the store already has, so that there is no copy."""
        return [self._known(self._interned_or_undecodable(item)) for item in self.resource.decode_items(data)]

    def decode_event(self, data: bytes) -> t.Any:
        """Return the object of one watch event."""
        return self._interned_or_undecodable(self.resource.read(data))

    def note_list_start(self) -> None:
        """Prepare for a list. It is called before the list is requested, so the list shows all changes until now."""

    def replace(self, items: list[t.Any]) -> bool:
        """Replace all objects by those of a complete list. Return false if nothing has changed."""
        undecodable = {key_of(item): found for item in items if (found := undecodable_of(item)) is not None}
        after = {key_of(item): item for item in items if not isinstance(item, Undecodable)}
        changed = len(after) != len(self._items) or any(self._items.get(key) is not item for key, item in after.items())
        changed = changed or undecodable != self._undecodable
        if changed:
            self._items, self._undecodable = after, undecodable
            self.version += 1
        return changed

    def apply(self, change: str, item: t.Any) -> bool:
        """Apply one watch event. Return false if nothing has changed.

        After an event without a readable uid the caller has to read the list again.
        """
        key = key_of(item)
        before, undecodable_before = self._items.get(key), self._undecodable.pop(key, None)
        undecodable = undecodable_of(item) if change != DELETED else None
        if undecodable is not None:
            self._undecodable[key] = undecodable
        if change == DELETED or isinstance(item, Undecodable):
            self._items.pop(key, None)
            changed = before is not None
        else:
            changed = before is None or not _unchanged(before, item)
            if changed:
                self._items[key] = item
        if not changed and undecodable == undecodable_before:
            return False
        self.version += 1
        return True

    @property
    def undecodable(self) -> tuple[Undecodable, ...]:
        """Return the objects that cannot be decoded."""
        return tuple(self._undecodable.values())

    def view(self, make: t.Callable[[t.Any], T]) -> T:
        """Return the result of ``make`` for all objects. It is made again only after a change, so callers must not modify it.

        ``make`` is kept as a key, so it must not be a lambda.
        """
        version, made = self._views.get(make, (-1, None))
        if version != self.version:
            made = make(self._items.values())
            self._views[make] = (self.version, made)
        return t.cast(T, made)

    def items(self) -> tuple[t.Any, ...]:
        """Return all objects."""
        return self.view(tuple)

    def _interned_or_undecodable(self, item: t.Any) -> t.Any:
        return self._interned(item) if undecodable_of(item) is None else item

    def _known(self, item: t.Any) -> t.Any:
        before = self._items.get(key_of(item))
        return before if before is not None and _unchanged(before, item) else item

    def _interned(self, item: t.Any) -> t.Any:
        return item


def key_of(item: t.Any) -> str:
    """Return the key of the object: its uid, or its namespace and name if the uid cannot be read."""
    metadata = item.metadata
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"


def _unchanged(before: t.Any, after: t.Any) -> bool:
    """Return whether only the resource version differs. Then ``before`` gets the new one, so that guards use the newest version."""
    old, new = before.metadata.resource_version, after.metadata.resource_version
    if old == new:
        return bool(before == after)
    force_setattr(before.metadata, "resource_version", new)
    if before == after:
        return True
    force_setattr(before.metadata, "resource_version", old)
    return False


class InterningStore(Store):
    """A store that keeps equal parts of objects once. Parts that no object uses are removed before the number of parts has doubled."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self._interner = Interner()
        self._intern: t.Callable[[t.Any], t.Any] = self._interner.intern_node if resource.type is Node else self._interner.intern_pod
        self._most_parts = LEAST_PARTS

    def decode_event(self, data: bytes) -> t.Any:
        """Return the object of one watch event, as ``Store.decode_event`` does.

        Only the thread that changes the store calls this, so the store can be read here without a lock.
        """
        if self._interner.size > self._most_parts:
            self._forget()
        return super().decode_event(data)

    def replace(self, items: list[t.Any]) -> bool:
        """Replace all objects as ``Store.replace`` does."""
        changed = super().replace(items)
        if self._interner.size > self._most_parts:
            self._forget()
        return changed

    def _interned(self, item: t.Any) -> t.Any:
        return self._intern(item)

    def _forget(self) -> None:
        self._interner.retain_only(self._intern, list(self._items.values()))
        self._most_parts = max(LEAST_PARTS, 2 * self._interner.size)
