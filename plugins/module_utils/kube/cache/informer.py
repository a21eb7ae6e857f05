# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An informer: the newest state of the cluster, kept up to date by watches instead of repeated reads.

At 5,000 nodes and 20,000 pods, a snapshot after a change of one object takes 0.3 to 0.7 ms, and one from scratch 24 to 40 ms.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable, Sequence

from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.api.storage import PersistentVolumeClaim, Storage
from ...model.caches import IdentityCache
from ...model.gc_pause import gc_paused
from ...model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ...model.snapshot import ClusterObjects, ClusterSnapshot, Indexes, OwnerKey, Skipped
from ...model.undecodable import Undecodable
from ...model.values.timestamps import format_time, read_time
from ..client import resources
from ..client.api import KubeApi
from ..client.errors import KubeError, UnreachableError
from ..client.resources import Resource
from .pod_store import PodStore
from .reflector import SILENT_AFTER_S, Reflector, stop_all
from .store import InterningStore, Store

REQUIRED_RESOURCES = (resources.NODES, resources.PODS)
"""Without these resources no decision is possible."""

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

WORKLOAD_RESOURCES = (resources.DEPLOYMENTS, resources.STATEFUL_SETS, resources.REPLICA_SETS)
"""Resources for a caller that needs the workloads of pods, in addition to CACHED_RESOURCES."""

OPTIONAL_RESOURCES = (*STORAGE_RESOURCES, resources.DEVICE_CLASSES)
"""Resources that an API server may not have. If it reports another resource as unknown, the answer is not from the API server."""


class ClusterInformer:
    """Watches resources with one thread and one connection for each. All methods may be called from any thread.

    ``resources_to_cache``: nodes and pods are always cached. Another resource that may not be read is listed in ``snapshot().skipped`` and
    read again from time to time. A resource that the server does not have counts as empty. After a connection breaks, the last state stays
    visible until the newer state is complete; ``has_synced`` is false in the meantime. ``profiles`` become those of the snapshots.
    """

    def __init__(
        self, api: KubeApi, resources_to_cache: Sequence[Resource] = CACHED_RESOURCES, *, profiles: Profiles = DEFAULT_PROFILES
    ) -> None:
        self._api = api
        self._profiles = profiles
        self._changed = threading.Condition()
        self._version = 0
        self._pods = PodStore()
        self._reflectors: dict[str, Reflector] = {}
        self._storage: IdentityCache[Storage] = IdentityCache(1)
        for resource in dict.fromkeys((*REQUIRED_RESOURCES, *resources_to_cache)):
            self._reflectors[resource.plural] = Reflector(
                api,
                self._new_store(resource),
                self._publish,
                required=resource in REQUIRED_RESOURCES,
                may_be_absent=resource in OPTIONAL_RESOURCES,
            )

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the watches and return when all lists are complete. If this fails, all threads are stopped.

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
        """End all watches and threads. The last state can still be read."""
        stop_all(self._reflectors.values())

    @property
    def version(self) -> int:
        """Return a number that grows with every change of a snapshot, and when a connection breaks or is restored."""
        with self._changed:
            return self._version

    def wait_for_change(self, since_version: int, timeout_s: float) -> int:
        """Wait until ``version`` differs from ``since_version``, at most ``timeout_s`` seconds, and return it.

        Raises the same errors as ``snapshot``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version != since_version, timeout_s)
            self._raise_broken()
            return self._version

    @property
    def has_synced(self) -> bool:
        """Return whether all lists are complete and no watch has an error."""
        with self._changed:
            reflectors = self._reflectors.values()
            return all(reflector.complete and reflector.error is None and reflector.ended is None for reflector in reflectors)

    @property
    def errors(self) -> dict[str, str]:
        """Return the current errors by resource."""
        with self._changed:
            found = {plural: reflector.ended or reflector.error for plural, reflector in self._reflectors.items()}
        return {plural: str(error) for plural, error in found.items() if error is not None}

    @property
    def silent(self) -> dict[str, float]:
        """Return by resource for how many seconds the server has sent nothing although it should have. The state may be old."""
        with self._changed:
            now_s = time.monotonic()
            waits = {plural: now_s - reflector.contact_at_s for plural, reflector in self._reflectors.items()}
        return {plural: wait_s for plural, wait_s in waits.items() if wait_s > SILENT_AFTER_S}

    @property
    def undecodable(self) -> tuple[Undecodable, ...]:
        """Return the objects that cannot be decoded in the current state."""
        with self._changed:
            return tuple(one for reflector in self._reflectors.values() for one in reflector.store.undecodable)

    def pod(self, uid: str) -> t.Optional[Pod]:
        """Return the newest state of one pod, or None if the watch does not show it. Unlike ``snapshot`` this is fast in every cluster."""
        with self._changed:
            return self._pods.pod(uid)

    def unschedulable_since(self, uid: str) -> t.Optional[float]:
        """Return the time since when the scheduler reports the pod as Unschedulable, or None if it does not.

        The time is in seconds since the epoch, by the API server's clock.
        """
        with self._changed:
            text = self._pods.unschedulable_since(uid)
        return read_time(text)

    def last_bound_s_ago(self, scheduler_name: str) -> t.Optional[float]:
        """Return the seconds since the watch showed that the scheduler bound a pod. None if the watch has not shown that yet."""
        with self._changed:
            at_s = self._pods.bound_at_s.get(scheduler_name)
        return time.monotonic() - at_s if at_s is not None else None

    def retain_deleted(self, uids: Iterable[str]) -> None:
        """Keep the last state of exactly these pods after their deletion."""
        with self._changed:
            self._pods.retain_deleted(uids)

    def last_state(self, uid: str) -> t.Optional[Pod]:
        """Return the last state of a deleted pod, or None if it was not to be kept, or a watch was broken at the deletion."""
        with self._changed:
            return self._pods.last_state(uid)

    def assume_terminating(self, uid: str, deletion_timestamp: str = "") -> None:
        """Show the pod as terminating, by default with the current time.

        The pod was evicted or is gone, and the watch may not show it yet.
        """
        deletion_timestamp = deletion_timestamp or format_time(self._api.now_s())
        self._publish(lambda: self._pods.assume_terminating(uid, deletion_timestamp=deletion_timestamp))

    def snapshot(self) -> ClusterSnapshot:
        """Return the newest state. Structs, lists of pods and dicts that have not changed are the same objects as in the last snapshot.

        Raises ForbiddenError if nodes or pods may no longer be read, and KubeError if a thread has ended with an error.
        """
        with self._changed:
            self._raise_broken()
            if self._pods.expire_assumptions():
                self._note_change()
            objects = ClusterObjects(
                pods=self._pods.items(),
                namespaces=self._items(resources.NAMESPACES),
                budgets=self._items(resources.BUDGETS),
                deployments=self._items(resources.DEPLOYMENTS),
                stateful_sets=self._items(resources.STATEFUL_SETS),
                replica_sets=self._items(resources.REPLICA_SETS),
                jobs=self._items(resources.JOBS),
                storage=self._known_storage(),
                device_classes=None if self._is_skipped(resources.DEVICE_CLASSES) else self._items(resources.DEVICE_CLASSES),
                skipped=self._skipped(),
                undecodable=self.undecodable,
            )
            return ClusterSnapshot(
                objects,
                indexes=self._indexes(),
                read_at_s=self._api.now_s(),
                profiles=self._profiles,
                server_version=self._api.server_version,
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

    def _copy_by_owner(self, _pods: t.Any) -> dict[OwnerKey, t.Any]:
        return dict(self._pods.by_owner.lists)

    def _known_storage(self) -> Storage:
        """Return the storage objects. The result is the same object until one of its parts changes."""
        parts = volumes, classes, nodes, drivers, capacities, attachments = [self._items(resource) for resource in STORAGE_RESOURCES]
        unreadable = frozenset(entry.resource for entry in self._skipped())
        known = frozenset[str]() if self._is_skipped(resources.CLAIMS) else None

        def make() -> Storage:
            return Storage(volumes, classes, nodes, drivers, capacities, attachments, unreadable, known)

        return self._storage.get(tuple(parts), make, key=(unreadable, known))

    def _items(self, resource: Resource) -> tuple[t.Any, ...]:
        items: tuple[t.Any, ...] = self._view(resource, tuple, ())
        return items

    def _view(self, resource: Resource, make: t.Callable[[t.Any], t.Any], nothing: t.Any) -> t.Any:
        reflector = self._reflectors.get(resource.plural)
        return nothing if reflector is None else reflector.store.view(make)

    def _skipped(self) -> tuple[Skipped, ...]:
        return tuple(reflector.skipped for reflector in self._reflectors.values() if reflector.skipped is not None)

    def _is_skipped(self, resource: Resource) -> bool:
        """Return whether the resource may not be read, or is DeviceClass and one of its objects cannot be decoded."""
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
    wrapped = KubeError(f"{reflector.store.resource.plural} are not watched any more: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def _by_namespace_and_name(claims: Iterable[PersistentVolumeClaim]) -> dict[tuple[str, str], PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
