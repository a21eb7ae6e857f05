# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read one snapshot of the cluster, in pages. Resources that may not be read are reported and do not end the run."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..model.api.pod import extended_resources, mounts_claims
from ..model.api.storage import Storage
from ..model.api.workload import WORKLOAD_KINDS, Workload
from ..model.gc_pause import gc_paused
from ..model.interning import Interner, one_for_each
from ..model.pod_template import pod_of_workload
from ..model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ..model.snapshot import ClusterObjects, ClusterSnapshot, Skipped, owner_key
from ..model.undecodable import Undecodable
from .background import run_in_background
from .client import resources
from .client.api import KubeApi
from .client.errors import ForbiddenError, NotFoundError, UndecodableError
from .client.resources import Resource


def read_snapshot(
    api: KubeApi,
    *,
    namespaces: t.Optional[Sequence[str]] = None,
    kinds: Sequence[str] = WORKLOAD_KINDS,
    label_selector: str = "",
    pods_everywhere: bool = True,
    pending_pods: bool = False,
    for_moves: bool = True,
    for_scores: bool = False,
    profiles: Profiles = DEFAULT_PROFILES,
) -> ClusterSnapshot:
    """Read nodes, pods, workloads and the objects that limit their restart.

    ``namespaces`` and ``label_selector`` select the workloads (None and empty: all). Pods are read from all namespaces, because they use
    the capacity of the nodes, unless ``pods_everywhere`` is false. A forbidden resource is listed in ``snapshot.skipped``. Forbidden nodes
    raise an error, because no decision is possible without them, and so do forbidden namespaces if ``namespaces`` is None. Claims and
    storage are read only if a workload or one of its pods mounts a claim, or with ``pending_pods`` a pod without a node. Device classes are
    read only if one of these pods requests an extended resource. If ``for_moves`` is false, quotas, autoscalers and limit ranges are not
    read, because only a move of pods needs them. ``for_scores``: read the images of the nodes and the Services, because scores depend on
    them. ``profiles`` become those of the snapshot.
    Raises ForbiddenError, UnauthorizedError, UnreachableError, ApiError.
    """
    # Tens of thousands of new structs would otherwise start the garbage collector repeatedly. They contain no cycles.
    with gc_paused():
        reader = _SnapshotReader(api, namespaces, label_selector, pods_everywhere=pods_everywhere, for_moves=for_moves)
        return reader.snapshot(kinds, pending_pods=pending_pods, for_scores=for_scores, profiles=profiles)


class _SnapshotReader:
    def __init__(
        self, api: KubeApi, namespaces: t.Optional[Sequence[str]], label_selector: str, *, pods_everywhere: bool, for_moves: bool
    ) -> None:
        self._api = api
        self._for_moves = for_moves
        self._pods_everywhere = pods_everywhere
        self._label_selector = label_selector
        self._wanted = None if namespaces is None else sorted(set(namespaces))
        self._readable: list[str] = []
        self._skipped: list[Skipped] = []
        self._undecodable: list[Undecodable] = []
        self._interner = Interner()

    def snapshot(self, kinds: Sequence[str], *, pending_pods: bool, for_scores: bool, profiles: Profiles) -> ClusterSnapshot:
        nodes = self._list(resources.NODES_WITH_IMAGES if for_scores else resources.NODES, each=self._interner.intern_node)
        namespaces = self._namespaces()
        # The server takes longest for the pods. The other lists are read in the meantime.
        coming = run_in_background(self._pods)
        workloads = {kind: self._workloads(kind) for kind in resources.WORKLOADS if kind in kinds}
        replica_sets = self._in_namespaces(resources.REPLICA_SETS) if "Deployment" in kinds else ()
        budgets = self._in_namespaces(resources.BUDGETS)
        quotas = self._for_a_move(resources.QUOTAS)
        autoscalers = self._for_a_move(resources.AUTOSCALERS)
        limit_ranges = self._for_a_move(resources.LIMIT_RANGES)
        known_services = self._services() if for_scores else None
        pods, complete = coming.result()
        asking = [pod_of_workload(workload) for found in workloads.values() for workload in found]
        # Admission may have added volumes and resources to their pods that the templates do not have.
        owners = {(owner.metadata.namespace, owner.metadata.uid) for owner in (*replica_sets, *workloads.get("StatefulSet", ()))}
        asking += [pod for pod in pods if owner_key(pod) in owners]
        if pending_pods:
            asking += [pod for pod in pods if not pod.spec.node_name]
        asking = one_for_each(asking, "containers", "init_containers", "volumes")
        claims, storage = self._storage() if any(map(mounts_claims, asking)) else ([], None)
        objects = ClusterObjects(
            nodes=nodes,
            namespaces=namespaces,
            pods=pods,
            complete_pods=complete,
            deployments=workloads.get("Deployment", ()),
            replica_sets=replica_sets,
            stateful_sets=workloads.get("StatefulSet", ()),
            budgets=budgets,
            quotas=quotas,
            autoscalers=autoscalers,
            claims=claims,
            storage=storage,
            limit_ranges=limit_ranges,
            device_classes=self._device_classes() if any(map(extended_resources, asking)) else (),
            services=known_services,
            skipped=sorted(self._skipped, key=lambda entry: (entry.namespace, entry.resource)),
            undecodable=sorted(self._undecodable, key=lambda one: (one.kind, one.metadata.namespace, one.metadata.name)),
        )
        return ClusterSnapshot(objects, read_at_s=self._api.now_s(), profiles=profiles, server_version=self._api.server_version)

    def _list(self, resource: Resource, **how: t.Any) -> list[t.Any]:
        return self._api.list_all(resource, undecodable=self._undecodable, **how)

    def _namespaces(self) -> list[t.Any]:
        try:
            found = self._list(resources.NAMESPACES)
        except ForbiddenError:
            if self._wanted is None:
                raise
            return self._named_namespaces()
        self._readable = [namespace.metadata.name for namespace in found]
        return found

    def _named_namespaces(self) -> list[t.Any]:
        found = []
        for name in self._wanted or ():
            try:
                found.append(self._api.get(resources.NAMESPACES, "", name))
                self._readable.append(name)
            except NotFoundError:
                continue
            except UndecodableError as error:
                self._undecodable.append(error.undecodable)
            except ForbiddenError as error:
                self._skip("namespaces", name, error)
        return found

    def _pods(self) -> tuple[list[t.Any], bool]:
        if self._pods_everywhere:
            try:
                return self._list(resources.PODS, each=self._interner.intern_pod), True
            except ForbiddenError as error:
                self._skip("pods", "", error)
        pods: list[t.Any] = []
        for namespace in self._scope():
            pods.extend(self._interner.intern_pod(pod) for pod in self._one_namespace(resources.PODS, namespace))
        return pods, False

    def _workloads(self, kind: str) -> list[Workload]:
        return self._in_namespaces(resources.WORKLOADS[kind], self._label_selector)

    def _storage(self) -> tuple[list[t.Any], Storage]:
        """Return the claims, and the storage objects that limit their nodes."""
        nodes = self._cluster_wide(resources.CSI_NODES)
        limited = any(driver.allocatable is not None for node in nodes for driver in node.spec.drivers or ())
        # If nodes limit the number of volumes, the volumes of every pod on them count.
        claims, known = self._claims(everywhere=limited)
        return claims, Storage(
            volumes=self._cluster_wide(resources.VOLUMES),
            classes=self._cluster_wide(resources.STORAGE_CLASSES),
            nodes=nodes,
            drivers=self._cluster_wide(resources.CSI_DRIVERS),
            capacities=self._cluster_wide(resources.CSI_CAPACITIES),
            attachments=self._cluster_wide(resources.VOLUME_ATTACHMENTS) if limited else (),
            unreadable=frozenset(entry.resource for entry in self._skipped if not entry.namespace),
            claim_namespaces=known,
        )

    def _device_classes(self) -> t.Optional[tuple[t.Any, ...]]:
        classes = self._cluster_wide(resources.DEVICE_CLASSES)
        unread = any(entry.resource == resources.DEVICE_CLASSES.plural for entry in self._skipped)
        return None if unread or any(one.kind == resources.DEVICE_CLASSES.kind for one in self._undecodable) else classes

    def _services(self) -> t.Optional[list[t.Any]]:
        """Return the Services, or None if they cannot be read. The controller of a pod usually makes them needless, so this is no error."""
        namespaces = [""] if self._wanted is None else self._scope()
        try:
            found = [service for namespace in namespaces for service in self._list(resources.SERVICES, namespace=namespace)]
        except ForbiddenError:
            return None
        return None if any(one.kind == resources.SERVICES.kind for one in self._undecodable) else found

    def _cluster_wide(self, resource: Resource) -> tuple[t.Any, ...]:
        try:
            return tuple(self._list(resource))
        except NotFoundError:
            return ()  # an API server without the resource has no objects of it
        except ForbiddenError as error:
            self._skip(resource.plural, "", error)
            return ()

    def _claims(self, *, everywhere: bool) -> tuple[list[t.Any], t.Optional[frozenset[str]]]:
        """Return the claims, and the namespaces whose claims are complete. None means all namespaces."""
        if self._wanted is None or everywhere:
            try:
                return self._list(resources.CLAIMS), None
            except ForbiddenError:
                pass  # the claims of the given namespaces may be sufficient
        claims = self._in_namespaces(resources.CLAIMS)
        forbidden = {entry.namespace for entry in self._skipped if entry.resource == resources.CLAIMS.plural}
        return claims, frozenset(self._scope()) - forbidden

    def _in_namespaces(self, resource: Resource, label_selector: str = "") -> list[t.Any]:
        """Return the collection from one list, or from one list for each namespace if only some namespaces are given or allowed."""
        if self._wanted is None or len(self._wanted) > 3:
            try:
                return self._list(resource, label_selector=label_selector)
            except ForbiddenError:
                pass  # some namespaces may be readable one by one
        return [item for namespace in self._scope() for item in self._one_namespace(resource, namespace, label_selector)]

    def _for_a_move(self, resource: Resource) -> list[t.Any]:
        return self._in_namespaces(resource) if self._for_moves else []

    def _scope(self) -> list[str]:
        if self._wanted is None:
            return self._readable
        return [name for name in self._wanted if name in self._readable]

    def _one_namespace(self, resource: Resource, namespace: str, label_selector: str = "") -> list[t.Any]:
        try:
            return self._list(resource, namespace=namespace, label_selector=label_selector)
        except ForbiddenError as error:
            self._skip(resource.plural, namespace, error)
            return []

    def _skip(self, resource: str, namespace: str, error: Exception) -> None:
        self._skipped.append(Skipped(resource, namespace, str(error)))
