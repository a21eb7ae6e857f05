# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A snapshot of the cluster at one time, with indexes.

Owners are resolved by UID only: Pod → ReplicaSet → Deployment (its current revision), Pod → StatefulSet.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .api.device import DeviceClass
from .api.namespace import LimitRange, Namespace, ResourceQuota
from .api.node import Node
from .api.pod import Pod
from .api.policy import PodDisruptionBudget
from .api.service import Service
from .api.storage import PersistentVolumeClaim, Storage
from .api.workload import WORKLOAD_KINDS, HorizontalPodAutoscaler, Job, Workload
from .scheduler_profile import DEFAULT_PROFILE, DEFAULT_PROFILES, Profiles, SchedulerProfile
from .selectors.selector_index import SelectorIndex
from .undecodable import Undecodable
from .values.integers import parse_int64
from .well_known import CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH

K = t.TypeVar("K")
T = t.TypeVar("T")

_VERSION = re.compile(r"v1\.([0-9]{1,3})(?![0-9])")
REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
REVISION_HISTORY_ANNOTATION = "deployment.kubernetes.io/revision-history"


class Skipped(t.NamedTuple):
    """A resource that could not be read, and the reason. ``namespace`` is empty if it is the whole cluster."""

    resource: str
    namespace: str
    reason: str


OwnerKey = tuple[str, str]
"""The namespace of an object and the uid of its controller. A tenant can write the uid of another namespace's controller into a pod."""


class Indexes(t.NamedTuple):
    """Nodes by name, pods by node and by their ``OwnerKey``, claims by namespace and name. The node of pending pods is an empty text.

    A caller that keeps indexes between snapshots passes them, so that they are not built again. Their content must not change afterwards.
    """

    nodes: dict[str, Node]
    pods_by_node: dict[str, list[Pod]]
    pods_by_owner: dict[OwnerKey, list[Pod]]
    claims: dict[tuple[str, str], PersistentVolumeClaim]

    @classmethod
    def of(cls, nodes: Iterable[Node], pods: Iterable[Pod], claims: Iterable[PersistentVolumeClaim]) -> Indexes:
        """Build the indexes from the objects."""
        pods = tuple(pods)
        return cls(
            nodes={node.name: node for node in nodes},
            pods_by_node=_group(pods, node_name_of),
            pods_by_owner=_group(pods, owner_key),
            claims={(claim.metadata.namespace, claim.metadata.name): claim for claim in claims},
        )


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of a cluster as they were read, and what could not be read.

    ``storage`` is None if it was not read, because no pod mounts a claim. ``device_classes`` is None if they could not be read, and
    ``services`` is None if they were not read.
    ``skipped``: the resources that could not be read. ``undecodable``: the objects that could not be decoded. For each of them that is a
    pod, ``pods`` contains an ``UndecodablePod``. ``complete_pods`` is false if some pods could not be read.
    """

    nodes: Iterable[Node] = ()
    pods: Iterable[Pod] = ()
    namespaces: Iterable[Namespace] = ()
    deployments: Iterable[Workload] = ()
    stateful_sets: Iterable[Workload] = ()
    replica_sets: Iterable[Workload] = ()
    jobs: Iterable[Job] = ()
    budgets: Iterable[PodDisruptionBudget] = ()
    quotas: Iterable[ResourceQuota] = ()
    autoscalers: Iterable[HorizontalPodAutoscaler] = ()
    limit_ranges: Iterable[LimitRange] = ()
    claims: Iterable[PersistentVolumeClaim] = ()
    storage: t.Optional[Storage] = None
    device_classes: t.Optional[Iterable[DeviceClass]] = ()
    services: t.Optional[Iterable[Service]] = None
    skipped: Iterable[Skipped] = ()
    undecodable: Iterable[Undecodable] = ()
    complete_pods: bool = True


class ClusterSnapshot:
    """Nodes, pods, workloads and the objects that limit changes to them. Read only.

    ``complete_pods`` is false if the node of some pod is not known. Then the free capacity of the nodes is not known. ``undecodable_pods``
    has, by node name, a pod that could not be decoded. The free capacity of that node is not known. ``jobs`` are by namespace and uid.
    ``indexes``: the indexes of the nodes, pods and claims, if the caller already has them.
    ``read_at_s``: seconds since the epoch by the API server's clock. ``profiles``: the known profiles of the cluster's schedulers.
    ``server_version``: the version of the API server, such as v1.36.3, or empty if it is not known.
    """

    def __init__(
        self,
        objects: ClusterObjects,
        *,
        indexes: Indexes | None = None,
        read_at_s: float = 0.0,
        profiles: Profiles = DEFAULT_PROFILES,
        server_version: str = "",
    ) -> None:
        self.pods: tuple[Pod, ...] = tuple(objects.pods)
        self.namespaces: dict[str, Namespace] = {namespace.metadata.name: namespace for namespace in objects.namespaces}
        self.deployments: tuple[Workload, ...] = tuple(objects.deployments)
        self.stateful_sets: tuple[Workload, ...] = tuple(objects.stateful_sets)
        self.skipped: tuple[Skipped, ...] = tuple(objects.skipped)
        self.undecodable: tuple[Undecodable, ...] = tuple(objects.undecodable)
        self._undecodable_by_kind = _group(self.undecodable, lambda one: one.kind)
        # One object for each key is sufficient. The name and the namespace are empty if they cannot be read.
        self._undecodable_places = {(one.kind, one.metadata.namespace): one for one in reversed(self.undecodable)}
        self._undecodable_names = {(one.kind, one.metadata.namespace, one.metadata.name): one for one in reversed(self.undecodable)}
        self.undecodable_pods: dict[str, Undecodable] = {
            one.node_name: one for one in self.undecodable_of("Pod") if one.node_name and not one.finished
        }
        # A pod whose node cannot be read may be on any node.
        placed_somewhere = any(one.node_name is None and not one.finished for one in self.undecodable_of("Pod"))
        self.complete_pods = objects.complete_pods and not placed_somewhere
        self.storage = objects.storage
        self.jobs: dict[OwnerKey, Job] = {(job.metadata.namespace, job.metadata.uid): job for job in objects.jobs}
        self.device_classes = None if objects.device_classes is None else tuple(objects.device_classes)
        self.read_at_s = read_at_s
        self.profiles = profiles
        self._server_version = _VERSION.match(server_version)

        known = indexes if indexes is not None else Indexes.of(objects.nodes, self.pods, objects.claims)
        self.nodes = known.nodes
        self.pods_by_node = known.pods_by_node
        self.pending_pods: Sequence[Pod] = known.pods_by_node.get("", ())
        self.pods_by_owner = known.pods_by_owner
        self.claims = known.claims
        self.all_replica_sets: tuple[Workload, ...] = tuple(objects.replica_sets)
        self.replica_sets_by_owner = _group(self.all_replica_sets, owner_key)
        self.workloads_by_namespace = _group((*self.deployments, *self.stateful_sets), lambda workload: workload.metadata.namespace)
        self.budgets_by_namespace = _group(objects.budgets, lambda budget: budget.metadata.namespace)
        self.quotas_by_namespace = _group(objects.quotas, lambda quota: quota.metadata.namespace)
        self.autoscalers_by_namespace = _group(objects.autoscalers, lambda autoscaler: autoscaler.metadata.namespace)
        services = objects.services
        self.services_by_namespace = None if services is None else _group(services, lambda service: service.metadata.namespace)
        self.limit_ranges_by_namespace = _group(objects.limit_ranges, lambda limit_range: limit_range.metadata.namespace)
        self._results: dict[t.Callable[..., t.Any], t.Any] = {}
        # Caches, because these are read several times for each workload.
        self._current: dict[tuple[str, str], Workload | None] = {}
        self._owned: dict[tuple[str, str], list[Pod]] = {}

    def is_before_kubernetes(self, minor: int) -> bool:
        """Return whether the cluster has an older version than 1.``minor``. A version that is not known counts as the newest one."""
        return self._server_version is not None and int(self._server_version[1]) < minor

    def once(self, function: t.Callable[[ClusterSnapshot], T]) -> T:
        """Return the result of the function for this snapshot. The function is called once and its result is kept.

        ``function`` must be defined in a module and depend only on the snapshot.
        """
        if function not in self._results:
            self._results[function] = function(self)
        result: T = self._results[function]
        return result

    def profile_of(self, pod: Pod) -> SchedulerProfile:
        """Return the profile by which the pod is scheduled. If its profile is not known, return the default profile."""
        return self.profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE)

    def workloads(self, kinds: Iterable[str] = WORKLOAD_KINDS) -> list[Workload]:
        """Return the workloads of the given kinds, sorted by kind, namespace and name."""
        wanted = set(kinds)
        found = [workload for workload in (*self.deployments, *self.stateful_sets) if workload.kind in wanted]
        return sorted(found, key=lambda workload: (workload.kind, workload.metadata.namespace, workload.metadata.name))

    def undecodable_of(self, kind: str) -> t.Sequence[Undecodable]:
        """Return the objects of the kind that could not be decoded."""
        return self._undecodable_by_kind.get(kind, ())

    def undecodable_in(self, namespace: str, *kinds: str) -> Undecodable | None:
        """Return an object of one of the kinds that could not be decoded and that is, or may be, in the namespace.

        None if there is none.
        """
        places = ((kind, place) for kind in kinds for place in (namespace, ""))
        return next((self._undecodable_places[place] for place in places if place in self._undecodable_places), None)

    def undecodable_named(self, kind: str, namespace: str, name: str) -> Undecodable | None:
        """Return an object of the kind that could not be decoded and that has, or may have, this namespace and name.

        None if there is none.
        """
        names = ((kind, place, own) for place in (namespace, "") for own in (name, ""))
        return next((self._undecodable_names[own] for own in names if own in self._undecodable_names), None)

    def undecodable_budget(self, pod: Pod) -> Undecodable | None:
        """Return a PodDisruptionBudget that could not be decoded and that may select the pod. None if there is none."""
        found = self.once(_undecodable_budgets) if self.undecodable_of("PodDisruptionBudget") else {}
        budgets = (found[place].selecting(pod.metadata.labels) for place in (pod.metadata.namespace, "") if place in found)
        return next((selecting[0] for selecting in budgets if selecting), None)

    def undecodable_revision(self, workload: Workload) -> Undecodable | None:
        """Return a ReplicaSet that could not be decoded and that may have the Deployment's current revision. None if there is none."""
        if workload.kind != "Deployment":
            return None
        found = self.once(_undecodable_replica_sets) if self.undecodable_of("ReplicaSet") else {}
        owners = ((place, owner) for place in (workload.metadata.namespace, "") for owner in (workload.metadata.uid, None))
        return next((found[owner] for owner in owners if owner in found), None)

    def replica_sets(self, deployment: Workload) -> list[Workload]:
        """Return the ReplicaSets of all revisions that the Deployment controls."""
        return _of_owner(self.replica_sets_by_owner, deployment.metadata.namespace, deployment.metadata.uid)

    def current_replica_set(self, deployment: Workload) -> Workload | None:
        """Return the ReplicaSet of the Deployment's current revision, or None before the controller has made one.

        It is the ReplicaSet with the highest ``deployment.kubernetes.io/revision``, as in ``kubectl rollout``. A ReplicaSet that is being
        deleted does not count, because it makes no pods.
        """
        key = deployment.metadata.uid, deployment.metadata.namespace
        if key not in self._current:
            candidates = [found for found in self.replica_sets(deployment) if found.metadata.deletion_timestamp is None]
            self._current[key] = max(candidates, key=_revision_number, default=None)
        return self._current[key]

    def owned_pods(self, workload: Workload) -> list[Pod]:
        """Return every pod that the workload controls, of any revision, phase and node."""
        if workload.kind != "Deployment":
            return self._pods_of(workload.metadata.uid, workload)
        pods: list[Pod] = []
        for replica_set in self.replica_sets(workload):
            pods.extend(self._pods_of(replica_set.metadata.uid, workload))
        return pods

    def _pods_of(self, owner: str, workload: Workload) -> list[Pod]:
        """Return the pods with this controller in the workload's namespace.

        A pod of another namespace does not count, even if a tenant writes this owner into it.
        """
        key = owner, workload.metadata.namespace
        pods = self._owned.get(key)
        if pods is None:
            pods = self._owned[key] = _of_owner(self.pods_by_owner, key[1], owner)
        return pods

    def revision(self, workload: Workload) -> str:
        """Return the workload's current revision: the pod-template-hash of a Deployment, the updateRevision of a StatefulSet.

        It is empty before the controller has processed the workload.
        """
        if workload.kind == "StatefulSet":
            return workload.status.update_revision
        replica_set = self.current_replica_set(workload)
        if replica_set is None:
            return ""
        return (replica_set.metadata.labels or {}).get(POD_TEMPLATE_HASH, "")

    def revision_number(self, workload: Workload) -> int | None:
        """Return the ``deployment.kubernetes.io/revision`` of the Deployment's current revision. None if there is none.

        ``kubectl rollout undo`` gives the restored revision the next number, so that its number is the highest.
        """
        replica_set = self.current_replica_set(workload) if workload.kind == "Deployment" else None
        return _revision_number(replica_set) if replica_set is not None else None

    def is_next_revision_after(self, workload: Workload, revision: str) -> bool:
        """Return whether the Deployment's current revision directly follows ``revision``. It is also true if this is no longer known."""
        current = self.current_replica_set(workload) if workload.kind == "Deployment" else None
        for replica_set in self.replica_sets(workload) if current is not None else ():
            if (replica_set.metadata.labels or {}).get(POD_TEMPLATE_HASH) == revision:
                return current is not None and _revision_number(current) <= _revision_number(replica_set) + 1
        return True

    def current_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods of the workload's current revision, including those that a StatefulSet's partition keeps at their revision."""
        if workload.kind == "Deployment":
            replica_set = self.current_replica_set(workload)
            return self._pods_of(replica_set.metadata.uid, workload) if replica_set is not None else []
        revision = workload.status.update_revision
        return [
            pod
            for pod in self.owned_pods(workload)
            if (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH, revision) == revision or _kept_by_partition(pod, workload)
        ]

    def outdated_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods of earlier revisions that a rollout still has to replace. Terminating and finished pods are not included."""
        if workload.kind == "Deployment":
            current = self.current_replica_set(workload)
            uids = {replica_set.metadata.uid: None for replica_set in self.replica_sets(workload)}
            if current is not None:
                del uids[current.metadata.uid]
            older = [pod for uid in uids for pod in self._pods_of(uid, workload)]
        else:
            updated = {pod.metadata.uid for pod in self.current_pods(workload)}
            older = [pod for pod in self.owned_pods(workload) if pod.metadata.uid not in updated]
        return [pod for pod in older if not pod.terminal and not pod.terminating]

    def is_rolled_back(self, workload: Workload) -> bool:
        """Return whether the Deployment's current revision was current before and was restored (``kubectl rollout undo``)."""
        replica_set = self.current_replica_set(workload) if workload.kind == "Deployment" else None
        return replica_set is not None and bool((replica_set.metadata.annotations or {}).get(REVISION_HISTORY_ANNOTATION))

    def placed_pods(self, workload: Workload) -> list[Pod]:
        """Return the pods of the current revision that count for the spread: bound, not terminating, not finished."""
        return [pod for pod in self.current_pods(workload) if pod.spec.node_name and not pod.terminating and not pod.terminal]


def _undecodable_budgets(snapshot: ClusterSnapshot) -> dict[str, SelectorIndex[Undecodable]]:
    """Return the PodDisruptionBudgets that could not be decoded, by namespace and selector.

    The namespace is empty if it cannot be read.
    """
    grouped = _group(snapshot.undecodable_of("PodDisruptionBudget"), lambda one: one.metadata.namespace)
    return {namespace: SelectorIndex((one.selector, one) for one in budgets) for namespace, budgets in grouped.items()}


def _undecodable_replica_sets(snapshot: ClusterSnapshot) -> dict[tuple[str, str | None], Undecodable]:
    """Return the ReplicaSets that could not be decoded, by namespace and owner uid."""
    return {(one.metadata.namespace, one.owner_uid): one for one in snapshot.undecodable_of("ReplicaSet")}


def _group(items: Iterable[T], key: t.Callable[[T], K | None]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        name = key(item)
        if name is not None:
            groups.setdefault(name, []).append(item)
    return groups


def _of_owner(groups: dict[OwnerKey, list[T]], namespace: str, uid: str) -> list[T]:
    """Return the items of the owner in the namespace, and its items whose namespace cannot be read."""
    return [*groups.get((namespace, uid), ()), *groups.get(("", uid), ())]


def node_name_of(pod: Pod) -> str:
    """Return the name of the node that the pod is bound to; empty for a pending pod."""
    return pod.spec.node_name


def owner_key(item: Pod | Workload) -> OwnerKey | None:
    """Return the namespace of the object and the uid of its controller, or None without a controller."""
    controller = item.metadata.controller
    return (item.metadata.namespace, controller.uid) if controller is not None else None


def ordinal(pod: Pod) -> int:
    """Return a StatefulSet pod's ordinal, from its name. It is -1 if the name has none."""
    number = parse_int64(pod.metadata.name.rpartition("-")[2])
    return -1 if number is None or number < 0 else number


def _kept_by_partition(pod: Pod, stateful_set: Workload) -> bool:
    """Return whether the partition keeps the pod at its revision. An update does not change the first ``partition`` replicas."""
    strategy = stateful_set.spec.update_strategy
    rolling = strategy.rolling_update if strategy is not None else None
    kept = (rolling.partition if rolling is not None else None) or 0
    return 0 <= ordinal(pod) - stateful_set.first_ordinal < kept


def _revision_number(replica_set: Workload) -> int:
    return parse_int64((replica_set.metadata.annotations or {}).get(REVISION_ANNOTATION, "")) or 0
