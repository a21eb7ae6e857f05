# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The newest state of the cluster, kept by watches instead of being read again for each look."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable, Sequence

from ..model.collector import collector_paused
from ..model.objects import Node, PersistentVolumeClaim, Pod
from ..model.snapshot import ClusterSnapshot, Indexes, Skipped
from ..model.storage import Storage
from ..model.timestamps import format_time, read_time
from ..model.undecodable import Undecodable
from . import resources
from .api import KubeApi
from .errors import KubeError, UnreachableError
from .follower import Follower
from .object_store import ObjectStore, SharingStore
from .pod_store import PodStore
from .resources import Resource

REQUIRED = (resources.NODES, resources.PODS)
"""Without these nothing can be judged."""

STORAGE = (
    resources.VOLUMES,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.CSI_CAPACITIES,
    resources.VOLUME_ATTACHMENTS,
)

FOLLOWED = (
    *REQUIRED,
    resources.NAMESPACES,
    resources.BUDGETS,
    resources.CLAIMS,
    *STORAGE,
    resources.JOBS,
    resources.DEVICE_CLASSES,
)

MAY_BE_ABSENT = (*STORAGE, resources.DEVICE_CLASSES)
"""What an API server need not know. Where it does not know the others, something else answers in its place."""

JOIN_S = 2.0
SILENT_AFTER_S = 85.0
"""A quiet watch is opened again before (``follower.SILENCE_S``). Where the server says nothing to that either, the state may be old."""


class WatchCache:
    """Follows resources with one thread and one connection each. All methods may be called from any thread.

    ``resources_to_follow``: nodes and pods are followed in any case. What else may not be read is named in ``snapshot().skipped`` and asked
    for again now and then; what the server does not know counts as none. What was true before a connection broke stays visible until the
    newer state is complete: ``synced`` tells.
    """

    def __init__(self, api: KubeApi, resources_to_follow: Sequence[Resource] = FOLLOWED) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._version = 0
        self._pods = PodStore()
        self._followers: dict[str, Follower] = {}
        self._storage: tuple[t.Any, t.Optional[Storage]] = (None, None)
        for resource in dict.fromkeys((*REQUIRED, *resources_to_follow)):
            self._followers[resource.plural] = Follower(
                api, self._new_store(resource), self._publish, required=resource in REQUIRED, may_be_absent=resource in MAY_BE_ABSENT
            )

    def start(self, timeout_s: float = 60.0) -> None:
        """Return as soon as all lists are complete; where that fails nothing is left running.

        Raises ForbiddenError (nodes, pods), UnauthorizedError, ConfigurationError, UnreachableError (also after ``timeout_s``).
        """
        with collector_paused():
            try:
                for follower in self._followers.values():
                    follower.start()
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
        for follower in self._followers.values():
            follower.stop()
        deadline_s = time.monotonic() + JOIN_S
        for follower in self._followers.values():
            follower.join(max(0.0, deadline_s - time.monotonic()))

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
    def synced(self) -> bool:
        """All lists are complete, and all watches are connected as far as is known."""
        with self._changed:
            followers = self._followers.values()
            return all(follower.complete and follower.error is None and follower.ended is None for follower in followers)

    @property
    def errors(self) -> dict[str, str]:
        """What is wrong at the moment, by resource."""
        with self._changed:
            found = {plural: follower.ended or follower.error for plural, follower in self._followers.items()}
        return {plural: str(error) for plural, error in found.items() if error is not None}

    @property
    def silent(self) -> dict[str, float]:
        """By resource, for how many seconds the server has said nothing, where it should have said something: the state may be old."""
        with self._changed:
            now_s = time.monotonic()
            waits = {plural: now_s - follower.contact_at_s for plural, follower in self._followers.items()}
        return {plural: wait_s for plural, wait_s in waits.items() if wait_s > SILENT_AFTER_S}

    @property
    def undecodable(self) -> tuple[Undecodable, ...]:
        """The objects that cannot be decoded at the moment."""
        with self._changed:
            return tuple(one for follower in self._followers.values() for one in follower.store.undecodable)

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

    def keep_deleted(self, uids: Iterable[str]) -> None:
        """Keep the last state of these pods when they are deleted, and of no others."""
        with self._changed:
            self._pods.keep_deleted(uids)

    def last_state(self, uid: str) -> t.Optional[Pod]:
        """The last state of a deleted pod; None where it was not to be kept, or where a watch was broken when it was deleted."""
        with self._changed:
            return self._pods.last_state(uid)

    def assume_leaving(self, uid: str, deletion_timestamp: str = "") -> None:
        """Show the pod as terminating, by default from now on: it has been evicted or is gone, and the watch may not have caught up yet."""
        deletion_timestamp = deletion_timestamp or format_time(self._api.now_s())
        self._publish(lambda: self._pods.assume_leaving(uid, deletion_timestamp=deletion_timestamp))

    def snapshot(self) -> ClusterSnapshot:
        """The newest state. Structs, lists of pods and dicts that have not changed are the same objects as in the snapshot before.

        Raises ForbiddenError if nodes or pods may not be read any more, and KubeError if a thread has died.
        """
        with self._changed:
            self._raise_broken()
            if self._pods.drop_old_assumptions():
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
            nodes=self._followers[resources.NODES.plural].store.view(_by_name),
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
        parts = [self._items(resource) for resource in STORAGE]
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
        follower = self._followers.get(resource.plural)
        return nothing if follower is None else follower.store.view(make)

    def _skipped(self) -> tuple[Skipped, ...]:
        return tuple(follower.skipped for follower in self._followers.values() if follower.skipped is not None)

    def _is_skipped(self, resource: Resource) -> bool:
        """The resource may not be read, or some of it cannot be decoded."""
        follower = self._followers.get(resource.plural)
        if resource == resources.DEVICE_CLASSES and follower is not None and follower.store.undecodable:
            return True
        return any(entry.resource == resource.plural for entry in self._skipped())

    def _new_store(self, resource: Resource) -> ObjectStore:
        if resource == resources.PODS:
            return self._pods
        return SharingStore(resource) if resource == resources.NODES else ObjectStore(resource)

    def _publish(self, change: t.Callable[[], bool]) -> None:
        with self._changed:
            if change():
                self._note_change()

    def _note_change(self) -> None:
        self._version += 1
        self._changed.notify_all()

    def _settled(self) -> bool:
        followers = self._followers.values()
        return all(follower.complete for follower in followers) or any(follower.fatal is not None for follower in followers)

    def _raise_fatal(self) -> None:
        for follower in self._followers.values():
            if follower.fatal is not None:
                raise _as_kube_error(follower, follower.fatal)

    def _raise_broken(self) -> None:
        for follower in self._followers.values():
            broken = follower.ended or follower.refused
            if broken is not None:
                raise _as_kube_error(follower, broken)

    def _late(self, timeout_s: float) -> KubeError:
        missing = {plural: follower for plural, follower in self._followers.items() if not follower.complete}
        error = next((follower.error for follower in missing.values() if follower.error is not None), None)
        return error or UnreachableError(f"{', '.join(missing)} could not be read within {timeout_s:.0f} s: the API server is too slow")


def _as_kube_error(follower: Follower, error: Exception) -> KubeError:
    if isinstance(error, KubeError):
        return error
    wrapped = KubeError(f"{follower.store.resource.plural} are not followed any more: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def _by_namespace_and_name(claims: Iterable[PersistentVolumeClaim]) -> dict[tuple[str, str], PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
