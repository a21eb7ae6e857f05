# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The newest state of the cluster, kept by watches instead of being read again for each look."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.api.storage import PersistentVolumeClaim, Storage
from ...model.gc_pause import gc_paused
from ...model.snapshot import ClusterSnapshot, Indexes, Skipped
from ...model.undecodable import Undecodable
from ...model.values.timestamps import format_time, read_time
from ..client import resources
from ..client.api import KubeApi
from ..client.errors import KubeError, UnreachableError
from ..client.resources import Resource
from .pod_store import PodStore
from .reflector import Reflector
from .store import InterningStore, Store

REQUIRED_RESOURCES = (resources.NODES, resources.PODS)
"""Without these nothing can be judged."""

STORAGE_RESOURCES = (
    resources.VOLUMES,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.CSI_CAPACITIES,
    resources.VOLUME_ATTACHMENTS,
)

CACHED_RESOURCES = (
    *REQUIRED_RESOURCES,
    resources.NAMESPACES,
    resources.BUDGETS,
    resources.CLAIMS,
    *STORAGE_RESOURCES,
    resources.JOBS,
    resources.DEVICE_CLASSES,
)

OPTIONAL_RESOURCES = (*STORAGE_RESOURCES, resources.DEVICE_CLASSES)
"""What an API server need not know. Where it does not know the others, something else answers in its place."""

JOIN_S = 2.0
SILENT_AFTER_S = 85.0
"""A quiet watch is opened again before (``reflector.SILENCE_S``). Where the server says nothing to that either, the state may be old."""


class ClusterInformer:
    """Follows resources with one thread and one connection each. All methods may be called from any thread.

    ``resources_to_cache``: nodes and pods are cached in any case. What else may not be read is named in ``snapshot().skipped`` and asked
    for again now and then; what the server does not know counts as none. What was true before a connection broke stays visible until the
    newer state is complete: ``has_synced`` tells.
    """

    def __init__(self, api: KubeApi, resources_to_cache: Sequence[Resource] = CACHED_RESOURCES) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._version = 0
        self._pods = PodStore()
        self._reflectors: dict[str, Reflector] = {}
        self._storage: tuple[t.Any, t.Optional[Storage]] = (None, None)
        for resource in dict.fromkeys((*REQUIRED_RESOURCES, *resources_to_cache)):
            self._reflectors[resource.plural] = Reflector(
                api,
                self._new_store(resource),
                self._publish,
                required=resource in REQUIRED_RESOURCES,
                may_be_absent=resource in OPTIONAL_RESOURCES,
            )

    def start(self, timeout_s: float = 60.0) -> None:
        """Return as soon as all lists are complete; where that fails nothing is left running.

        Raises ForbiddenError (nodes, pods), UnauthorizedError, ConfigurationError, UnreachableError (also after ``timeout_s``).
        """
        with gc_paused():
            try:
                for reflector in self._reflectors.values():
                    reflector.start()
                with self._changed:
                    done = self._changed.wait_for(self._settled, timeout_s)
                    self._raise_fatal()
                    if not done:
                        raise self._late(timeout_s)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End all watches and threads. The last state can still be looked at."""
        for reflector in self._reflectors.values():
            reflector.stop()
        deadline_s = time.monotonic() + JOIN_S
        for reflector in self._reflectors.values():
            reflector.join(max(0.0, deadline_s - time.monotonic()))

    @property
    def version(self) -> int:
        """Grows with every change that a snapshot would show, and when a connection breaks or comes back."""
        with self._changed:
            return self._version

    def wait_for_change(self, since_version: int, timeout_s: float) -> int:
        """Wait until ``version`` is another, at most ``timeout_s`` seconds, and return it.

        Raises as ``snapshot``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version != since_version, timeout_s)
            self._raise_broken()
            return self._version

    @property
    def has_synced(self) -> bool:
        """All lists are complete, and all watches are connected as far as is known."""
        with self._changed:
            reflectors = self._reflectors.values()
            return all(reflector.complete and reflector.error is None and reflector.ended is None for reflector in reflectors)

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong at the moment, by resource."""
        with self._changed:
            found = {plural: reflector.ended or reflector.error for plural, reflector in self._reflectors.items()}
        return {plural: str(error) for plural, error in found.items() if error is not None}

    @property
    def silent(self) -> dict[str, float]:
        """By resource, for how many seconds the server has said nothing, where it should have said something: the state may be old."""
        with self._changed:
            now_s = time.monotonic()
            waits = {plural: now_s - reflector.contact_at_s for plural, reflector in self._reflectors.items()}
        return {plural: wait_s for plural, wait_s in waits.items() if wait_s > SILENT_AFTER_S}

    @property
    def undecodable(self) -> tuple[Undecodable, ...]:
        """The objects that cannot be decoded at the moment."""
        with self._changed:
            return tuple(one for reflector in self._reflectors.values() for one in reflector.store.undecodable)

    def pod(self, uid: str) -> t.Optional[Pod]:
        """The newest state of one pod; None where the watch shows none. Unlike ``snapshot`` this is cheap on the largest cluster."""
        with self._changed:
            return self._pods.pod(uid)

    def unschedulable_since(self, uid: str) -> t.Optional[float]:
        """Seconds since the epoch, by the API server's clock, when the scheduler said that the pod is Unschedulable; None if it did not."""
        with self._changed:
            text = self._pods.unschedulable_since(uid)
        return read_time(text)

    def last_bound_s_ago(self, scheduler_name: str) -> t.Optional[float]:
        """Seconds since the watch showed that the scheduler bound a pod; None if it has not shown that yet."""
        with self._changed:
            at_s = self._pods.bound_at_s.get(scheduler_name)
        return time.monotonic() - at_s if at_s is not None else None

    def retain_deleted(self, uids: Iterable[str]) -> None:
        """Keep the last state of these pods when they are deleted, and of no others."""
        with self._changed:
            self._pods.retain_deleted(uids)

    def last_state(self, uid: str) -> t.Optional[Pod]:
        """The last state of a deleted pod; None where it was not to be kept, or where a watch was broken when it was deleted."""
        with self._changed:
            return self._pods.last_state(uid)

    def assume_terminating(self, uid: str, deletion_timestamp: str = "") -> None:
        """Show the pod as terminating, by default from now on: it has been evicted or is gone, and the watch may not have caught up yet."""
        deletion_timestamp = deletion_timestamp or format_time(self._api.now_s())
        self._publish(lambda: self._pods.assume_terminating(uid, deletion_timestamp=deletion_timestamp))

    def snapshot(self) -> ClusterSnapshot:
        """The newest state. Structs, lists of pods and dicts that have not changed are the same objects as in the snapshot before.

        Raises ForbiddenError if nodes or pods may not be read any more, and KubeError if a thread has died.
        """
        with self._changed:
            self._raise_broken()
            if self._pods.expire_assumptions():
                self._note_change()
            return ClusterSnapshot(
                pods=self._pods.items(),
                namespaces=self._items(resources.NAMESPACES),
                budgets=self._items(resources.BUDGETS),
                jobs=self._items(resources.JOBS),
                storage=self._known_storage(),
                device_classes=None if self._is_skipped(resources.DEVICE_CLASSES) else self._items(resources.DEVICE_CLASSES),
                skipped=self._skipped(),
                undecodable=self.undecodable,
                indexes=self._indexes(),
                read_at_s=self._api.now_s(),
            )

    def _indexes(self) -> Indexes:
        return Indexes(
            nodes=self._reflectors[resources.NODES.plural].store.view(_by_name),
            pods_by_node=self._pods.view(self._copy_by_node),
            pods_by_owner=self._pods.view(self._copy_by_owner),
            claims=self._view(resources.CLAIMS, _by_namespace_and_name, {}),
        )

    def _copy_by_node(self, _pods: t.Any) -> dict[str, t.Any]:
        return dict(self._pods.by_node.lists)

    def _copy_by_owner(self, _pods: t.Any) -> dict[str, t.Any]:
        return dict(self._pods.by_owner.lists)

    def _known_storage(self) -> Storage:
        """The same object until something in it changes."""
        parts = [self._items(resource) for resource in STORAGE_RESOURCES]
        unreadable = frozenset(entry.resource for entry in self._skipped())
        known = frozenset[str]() if self._is_skipped(resources.CLAIMS) else None
        key = (*map(id, parts), unreadable, known)
        if self._storage[0] != key:
            volumes, classes, nodes, drivers, capacities, attachments = parts
            # It holds the parts, so that no other object can come to have their ids.
            self._storage = key, Storage(volumes, classes, nodes, drivers, capacities, attachments, unreadable, known)
        return t.cast(Storage, self._storage[1])

    def _items(self, resource: Resource) -> tuple[t.Any, ...]:
        items: tuple[t.Any, ...] = self._view(resource, tuple, ())
        return items

    def _view(self, resource: Resource, make: t.Callable[[t.Any], t.Any], nothing: t.Any) -> t.Any:
        reflector = self._reflectors.get(resource.plural)
        return nothing if reflector is None else reflector.store.view(make)

    def _skipped(self) -> tuple[Skipped, ...]:
        return tuple(reflector.skipped for reflector in self._reflectors.values() if reflector.skipped is not None)

    def _is_skipped(self, resource: Resource) -> bool:
        """The resource may not be read, or some of it cannot be decoded."""
        reflector = self._reflectors.get(resource.plural)
        if resource == resources.DEVICE_CLASSES and reflector is not None and reflector.store.undecodable:
            return True
        return any(entry.resource == resource.plural for entry in self._skipped())

    def _new_store(self, resource: Resource) -> Store:
        if resource == resources.PODS:
            return self._pods
        return InterningStore(resource) if resource == resources.NODES else Store(resource)

    def _publish(self, change: t.Callable[[], bool]) -> None:
        with self._changed:
            if change():
                self._note_change()

    def _note_change(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _settled(self) -> bool:
        reflectors = self._reflectors.values()
        return all(reflector.complete for reflector in reflectors) or any(reflector.fatal is not None for reflector in reflectors)

    def _raise_fatal(self) -> None:
        for reflector in self._reflectors.values():
            if reflector.fatal is not None:
                raise _as_kube_error(reflector, reflector.fatal)

    def _raise_broken(self) -> None:
        for reflector in self._reflectors.values():
            broken = reflector.ended or reflector.refused
            if broken is not None:
                raise _as_kube_error(reflector, broken)

    def _late(self, timeout_s: float) -> KubeError:
        missing = {plural: reflector for plural, reflector in self._reflectors.items() if not reflector.complete}
        error = next((reflector.error for reflector in missing.values() if reflector.error is not None), None)
        return error or UnreachableError(f"{', '.join(missing)} could not be read within {timeout_s:.0f} s: the API server is too slow")


def _as_kube_error(reflector: Reflector, error: Exception) -> KubeError:
    if isinstance(error, KubeError):
        return error
    wrapped = KubeError(f"{reflector.store.resource.plural} are not followed any more: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def _by_namespace_and_name(claims: Iterable[PersistentVolumeClaim]) -> dict[tuple[str, str], PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
