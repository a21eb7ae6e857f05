# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods of each node in a snapshot, with simulated changes that do not modify the snapshot."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.caches import BoundedCache, IdentityDict, are_same_objects
from ..model.reason import Reasons
from ..model.snapshot import ClusterSnapshot
from .affinity_term_index import AffinityTermIndex
from .filters.interface import PodChange
from .node_info import NodeInfo, PodLoad, pod_key
from .pod_requests import node_allocatable
from .storage.pod_volumes import PodVolumes, resolve_volumes
from .storage.storage_index import StorageIndex, claims_used

MAX_STATIC_SIGNATURES = 8
"""The number of static signatures for which the rejected nodes are kept."""

FULL_SCAN_SHARE = 10
"""``ClusterState.in_order`` scans all nodes if more than one in this many nodes is requested; otherwise it sorts the names."""


T = t.TypeVar("T")


class ClusterState:
    """The pods of every node, as the scheduler counts them: all bound pods that have not finished.

    Create one with ``of``. ``fork`` returns a cluster state that changes independently. The NodeInfo of a node is built at its first use,
    and once for all forks.
    """

    def __init__(self, read: _SnapshotState) -> None:
        self._base = read
        self._changed_infos: dict[str, NodeInfo] = {}
        # Pods whose node differs from the snapshot: the pod and its new node, or None if the pod has been removed.
        self._moved: dict[str, tuple[Pod, str] | None] = {}
        self._changes: list[PodChange] = []

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, earlier: ClusterState | None = None) -> ClusterState:
        """Return the cluster state with the pods on the nodes that the snapshot has them on.

        ``earlier``: the cluster state of an older snapshot, which must not be used afterwards. Its NodeInfos are reused for each node that
        is the same object in both snapshots, with the same pod objects on it.
        """
        read = _SnapshotState(snapshot)
        if earlier is not None:
            read.reuse(earlier._base)
        return cls(read)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The snapshot as it was read, without the simulated changes."""
        return self._base.snapshot

    @property
    def node_names(self) -> tuple[str, ...]:
        """All names of the snapshot's nodes, always as the same tuple."""
        return self._base.names

    def fork(self) -> ClusterState:
        """Return a cluster state that is equal to this one. Later changes of one do not affect the other."""
        other = ClusterState(self._base)
        other._changed_infos = dict(self._changed_infos)
        other._moved = dict(self._moved)
        other._changes = list(self._changes)
        return other

    @property
    def changes(self) -> t.Sequence[PodChange]:
        """The changes since the snapshot, in the order in which they were made. Entries are only appended."""
        return self._changes

    def in_order(self, node_names: Iterable[str] | None) -> Sequence[str]:
        """Return the names that the snapshot has, in its order.

        For None, return ``node_names``.
        """
        if node_names is None:
            return self._base.names
        positions, wanted = self._base.positions, set(node_names)
        if len(wanted) > len(positions) // FULL_SCAN_SHARE:
            return [name for name in positions if name in wanted]
        return sorted(wanted & positions.keys(), key=positions.__getitem__)

    def info(self, node_name: str) -> NodeInfo:
        """Return the node with its pods now. Raise KeyError for a node that the snapshot does not have."""
        return self._changed_infos.get(node_name) or self._base.infos.get(node_name) or self._base.info(node_name)

    def snapshot_info(self, node_name: str) -> NodeInfo:
        """Return the node with its pods in the snapshot. Raise KeyError for a node that the snapshot does not have."""
        return self._base.infos.get(node_name) or self._base.info(node_name)

    @property
    def changed_infos(self) -> Mapping[str, NodeInfo]:
        """The infos of all nodes that a change has affected, by name, even if the change was reverted. Later changes are visible in it."""
        return self._changed_infos

    def pods_on(self, node_name: str) -> list[Pod]:
        """Return the pods on the node now. Return an empty list for a node that the snapshot does not have."""
        if node_name not in self.snapshot.nodes:
            return []
        return [pod for pod, _load in self.info(node_name).pods.values()]

    def remove(self, pod: Pod) -> None:
        """Remove the pod from its node, or its nomination for a node. Nothing changes if it was removed before."""
        key = pod_key(pod)
        if key not in self._moved and not pod.spec.node_name and pod.status.nominated_node_name:
            self._changes.append(PodChange(pod, pod.status.nominated_node_name, 0))
        node_name = self._current_node(key, pod)
        self._moved[key] = None
        if node_name in self.snapshot.nodes:
            info = self.info(node_name)
            if key in info.pods:
                self._changes.append(PodChange(info.pods[key][0], node_name, -1))
            self._changed_infos[node_name] = info.without_pod(key)

    def assign(self, pod: Pod, node_name: str) -> None:
        """Put the pod on the node, and remove it from its previous node.

        A simulated pod needs its own uid. Raise KeyError for a node that the snapshot does not have.
        """
        if node_name not in self.snapshot.nodes:
            raise KeyError(node_name)
        key = pod_key(pod)
        if key in self._moved or pod.spec.node_name or pod.status.nominated_node_name:
            self.remove(pod)
        self._changed_infos[node_name] = self.info(node_name).with_pod(key, pod, self._base.load(pod))
        self._moved[key] = (pod, node_name)
        self._changes.append(PodChange(pod, node_name, 1))

    def restore(self, pod: Pod) -> None:
        """Put the pod back on its node of the snapshot. Nothing changes if the pod was not changed or has no node in the snapshot."""
        key, node_name = pod_key(pod), pod.spec.node_name
        if key not in self._moved or node_name not in self.snapshot.nodes:
            return
        self.remove(pod)
        del self._moved[key]
        known = self._base.info(node_name).pods.get(key)
        if known is not None:
            self._changed_infos[node_name] = self.info(node_name).with_pod(key, *known)
            self._changes.append(PodChange(known[0], node_name, 1))

    def nominated_pods(self) -> dict[str, list[Pod]]:
        """Return the pending pods that are nominated for each node, by the name of the node, for the nodes that the snapshot has."""
        nominated: dict[str, list[Pod]] = {}
        for pod in self._base.nominated():
            if pod_key(pod) not in self._moved and pod.status.nominated_node_name in self.snapshot.nodes:
                nominated.setdefault(pod.status.nominated_node_name, []).append(pod)
        return nominated

    @property
    def affinity_terms(self) -> AffinityTermIndex:
        """The groups of the snapshot's pods on nodes, without the simulated changes."""
        return self._base.affinity_terms()

    def shared(self, make: t.Callable[[ClusterSnapshot], T]) -> T:
        """Return the result of ``make`` for the snapshot. ``make`` is called once, for all forks."""
        return self._base.shared(make)

    def static_rejections(self, static_rules: Hashable) -> dict[str, Reasons]:
        """Return the known rejections by node name for all pods with this static signature, on all forks. The caller adds entries."""
        return self._base.rejections_by_signature.get(static_rules, dict)

    def priority_of_class(self, name: str) -> int | None:
        """Return the priority of the snapshot's pods of this class. Return None if there are no such pods or their priorities differ."""
        return self._base.priorities().get(name)

    @property
    def storage(self) -> StorageIndex:
        """The storage index of the snapshot."""
        return self._base.storage()

    def volumes_of(self, pod: Pod) -> PodVolumes | None:
        """Return the resolved volumes of the pod. Return None if no volume binds the pod to nodes."""
        return self._base.volumes_of(pod) if pod.spec.volumes else None

    def claim_in_use(self, claim: tuple[str, str]) -> bool:
        """Return whether a pod on some node uses the claim.

        ``claim``: namespace and name.
        """
        if any(key not in self._moved for key in self.storage.users(claim)):
            return True
        return any(place is not None and claim in claims_used(place[0]) for place in self._moved.values())

    def arrived_pods(self) -> Iterator[Pod]:
        """Return the pods that ``assign`` has put on a node since the snapshot."""
        return (place[0] for place in self._moved.values() if place is not None)

    def _current_node(self, key: str, pod: Pod) -> str:
        if key in self._moved:
            place = self._moved[key]
            return place[1] if place is not None else ""
        return pod.spec.node_name


class _SnapshotState:
    """The results that follow from the snapshot alone. Each is computed at its first use and shared by all forks."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.names = tuple(snapshot.nodes)
        self.positions: dict[str, int] = {name: position for position, name in enumerate(self.names)}
        self.infos: dict[str, NodeInfo] = {}
        self.rejections_by_signature: BoundedCache[Hashable, dict[str, Reasons]] = BoundedCache(MAX_STATIC_SIGNATURES)
        self._loads: IdentityDict[PodLoad] = IdentityDict()
        self._last_load: tuple[Pod, PodLoad] | None = None
        self._allocatable: IdentityDict[dict[str, int]] = IdentityDict()
        self._nominated: list[Pod] | None = None
        self._storage: StorageIndex | None = None
        self._last_volumes: tuple[Pod, PodVolumes | None] | None = None
        self._affinity_terms: AffinityTermIndex | None = None
        self._priorities: dict[str, int | None] | None = None
        self._shared: dict[object, t.Any] = {}

    def shared(self, make: t.Callable[[ClusterSnapshot], T]) -> T:
        if make not in self._shared:
            self._shared[make] = make(self.snapshot)
        known: T = self._shared[make]
        return known

    def info(self, node_name: str) -> NodeInfo:
        info = self.infos.get(node_name)
        if info is None:
            node = self.snapshot.nodes[node_name]
            pods = (pod for pod in self.snapshot.pods_by_node.get(node_name, ()) if not pod.terminal)
            info = NodeInfo.build(node, self._allocatable_of(node), {pod_key(pod): (pod, self.load(pod)) for pod in pods})
            self.infos[node_name] = info
        return info

    def reuse(self, other: _SnapshotState) -> None:
        """Take over the other's results about nodes that have not changed.

        Attached volumes are not taken over, because they depend on claims and volumes that may have changed.
        """
        nodes, other_nodes = self.snapshot.nodes, other.snapshot.nodes
        changed = _nodes_with_other_pods(self.snapshot, other.snapshot)
        for name, info in other.infos.items():
            node = nodes.get(name)
            if node is not None and node is other_nodes.get(name) and name not in changed:
                self.infos[name] = info if info.attached is None else info.without_attached_volumes()
        if other._affinity_terms is not None:
            self._affinity_terms = other._affinity_terms.updated(_running_on(changed, other.snapshot), _running_on(changed, self.snapshot))

    def nominated(self) -> list[Pod]:
        if self._nominated is None:
            self._nominated = [pod for pod in self.snapshot.pending_pods if pod.status.nominated_node_name and not pod.terminal]
        return self._nominated

    def affinity_terms(self) -> AffinityTermIndex:
        if self._affinity_terms is None:
            self._affinity_terms = AffinityTermIndex.of(
                pod for pod in self.snapshot.pods if pod.spec.node_name in self.snapshot.nodes and not pod.terminal
            )
        return self._affinity_terms

    def priorities(self) -> dict[str, int | None]:
        if self._priorities is None:
            found: dict[str, int | None] = {}
            for pod in self.snapshot.pods:
                name, priority = pod.spec.priority_class_name, pod.spec.priority
                if name and found.setdefault(name, priority) != priority:
                    found[name] = None
            self._priorities = found
        return self._priorities

    def storage(self) -> StorageIndex:
        if self._storage is None:
            self._storage = StorageIndex(self.snapshot, self.info)
        return self._storage

    def volumes_of(self, pod: Pod) -> PodVolumes | None:
        # Every volume filter uses the volumes of the same pod, and a simulation does so many times.
        if self._last_volumes is None or self._last_volumes[0] is not pod:
            self._last_volumes = (pod, resolve_volumes(pod, self.storage()))
        return self._last_volumes[1]

    def load(self, pod: Pod) -> PodLoad:
        """Return the requests and host ports of the pod on its node."""
        # The pods of one template share their parts (model/interning.py), so their load is computed once.
        spec, status, last = pod.spec, pod.status, self._last_load
        if last is not None and last[0].spec is spec and last[0].status is status:
            return last[1]
        key = (
            spec.host_network,
            id(spec.containers),
            id(spec.init_containers),
            id(spec.resources),
            id(spec.overhead),
            id(status.container_statuses),
            id(status.init_container_statuses),
            id(status.resources),
            id(status.allocated_resources),
            id(status.conditions),
        )
        known = self._loads.get(key)
        load = known[1] if known is not None else self._loads.keep(key, pod, PodLoad.of(pod))
        # The pods of a simulated restart differ only in their metadata, and their loads are requested one after another.
        self._last_load = (pod, load)
        return load

    def _allocatable_of(self, node: Node) -> dict[str, int]:
        # Equal nodes share their allocatable too.
        offer = node.status.allocatable
        known = self._allocatable.get(id(offer))
        return known[1] if known is not None else self._allocatable.keep(id(offer), offer, node_allocatable(node))


def _nodes_with_other_pods(after: ClusterSnapshot, before: ClusterSnapshot) -> set[str]:
    """Return the names of nodes that are only in one of the snapshots, or that have other pod objects on them."""
    pods, other_pods = after.pods_by_node, before.pods_by_node
    changed = after.nodes.keys() ^ before.nodes.keys()
    changed.update(name for name in after.nodes if not are_same_objects(pods.get(name, ()), other_pods.get(name, ())))
    return changed


def _running_on(node_names: Iterable[str], snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """Return the pods that have not finished on these nodes, for the nodes that the snapshot has."""
    names = (name for name in node_names if name in snapshot.nodes)
    return (pod for name in names for pod in snapshot.pods_by_node.get(name, ()) if not pod.terminal)
