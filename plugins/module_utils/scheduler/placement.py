# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What runs where: a snapshot's pods by node, with changes on top that leave the snapshot as it is."""

from __future__ import annotations

import operator
import typing as t
from collections.abc import Hashable, Iterable, Iterator, Mapping

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.bounded_cache import BoundedCache
from ..model.reason import Reasons
from ..model.snapshot import ClusterSnapshot
from .alone import AlikePods
from .counted_nodes import CountedNodes
from .node_info import NodeInfo, PodLoad
from .pod_groups import PodGroups
from .pod_volumes import PodVolumes, resolve
from .resources import allocatable
from .volume_index import VolumeIndex, claims_used

MOST_KINDS = 64
"""Kinds of pods of which the answers about nodes are kept: pods with requests of their own must not fill the memory with them."""

MOST_STATIC_KINDS = 8
"""As MOST_KINDS, for pods that differ in what the static rules depend on."""

MANY = 10
"""Names of more than one in so many nodes are put in order by a look at all nodes."""


class Change(t.NamedTuple):
    """A pod that has come to a node (``amount`` 1), left it (-1), or given up its nomination for it (0)."""

    pod: Pod
    node_name: str
    amount: int


class Placement:
    """The pods of every node, as the scheduler counts them: all bound pods that have not finished.

    Made by ``of``; ``fork`` gives one that changes on its own. Nodes are worked out when first asked for, and once for all forks.
    """

    def __init__(self, read: _SnapshotPlacement) -> None:
        self._read = read
        self._changed: dict[str, NodeInfo] = {}
        # Pods that are not where the snapshot has them: with their new node, or None where they have left.
        self._moved: dict[str, tuple[Pod, str] | None] = {}
        self._changes: list[Change] = []

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, earlier: Placement | None = None) -> Placement:
        """The pods where the snapshot has them.

        ``earlier``: the placement of an older snapshot, which is not to be asked any more. What it has worked out about nodes that are the
        same object in both, with the same objects on them, is taken over.
        """
        read = _SnapshotPlacement(snapshot)
        if earlier is not None:
            read.take_over(earlier._read)
        return cls(read)

    @property
    def snapshot(self) -> ClusterSnapshot:
        """What was read; changes do not show in it."""
        return self._read.snapshot

    def fork(self) -> Placement:
        """A placement that starts equal to this one; neither sees what happens to the other afterwards."""
        other = Placement(self._read)
        other._changed = dict(self._changed)
        other._moved = dict(self._moved)
        other._changes = list(self._changes)
        return other

    @property
    def changes(self) -> t.Sequence[Change]:
        """What is different from the snapshot, in the order in which it came about. It only ever grows."""
        return self._changes

    def in_order(self, node_names: Iterable[str] | None) -> list[str]:
        """Those of the nodes that the snapshot has, in its order; all of them for None."""
        if node_names is None:
            return list(self.snapshot.nodes)
        positions, wanted = self._read.positions, set(node_names)
        if len(wanted) > len(positions) // MANY:
            return [name for name in positions if name in wanted]
        return sorted(wanted & positions.keys(), key=positions.__getitem__)

    def info(self, node_name: str) -> NodeInfo:
        """The node with what runs on it now. Raises KeyError for a node that the snapshot does not have."""
        return self._changed.get(node_name) or self._read.infos.get(node_name) or self._read.info(node_name)

    def info_as_read(self, node_name: str) -> NodeInfo:
        """The node with what runs on it in the snapshot. Raises KeyError for a node that the snapshot does not have."""
        return self._read.infos.get(node_name) or self._read.info(node_name)

    @property
    def changed(self) -> Mapping[str, NodeInfo]:
        """The infos of nodes on which something is, or was in between, different from the snapshot; it shows later changes as well."""
        return self._changed

    def pods_on(self, node_name: str) -> list[Pod]:
        """The pods that use the node now; none for a node that the snapshot does not have."""
        if node_name not in self.snapshot.nodes:
            return []
        return [pod for pod, _load in self.info(node_name).pods.values()]

    def remove(self, pod: Pod) -> None:
        """The pod has left its node, or its nomination for one. Nothing happens if it is gone already."""
        key = pod_key(pod)
        if key not in self._moved and not pod.spec.node_name and pod.status.nominated_node_name:
            self._changes.append(Change(pod, pod.status.nominated_node_name, 0))
        node_name = self._home(key, pod)
        self._moved[key] = None
        if node_name in self.snapshot.nodes:
            info = self.info(node_name)
            if key in info.pods:
                self._changes.append(Change(info.pods[key][0], node_name, -1))
            self._changed[node_name] = info.without_pod(key)

    def assign(self, pod: Pod, node_name: str) -> None:
        """The pod now runs on the node, and no longer where it was before.

        Simulated pods need a uid of their own. Raises KeyError for a node that the snapshot does not have.
        """
        if node_name not in self.snapshot.nodes:
            raise KeyError(node_name)
        key = pod_key(pod)
        if key in self._moved or pod.spec.node_name or pod.status.nominated_node_name:
            self.remove(pod)
        self._changed[node_name] = self.info(node_name).with_pod(key, pod, self._read.load(pod))
        self._moved[key] = (pod, node_name)
        self._changes.append(Change(pod, node_name, 1))

    def restore(self, pod: Pod) -> None:
        """The pod is again where the snapshot has it. Nothing happens if it is there, or has no node in the snapshot."""
        key, node_name = pod_key(pod), pod.spec.node_name
        if key not in self._moved or node_name not in self.snapshot.nodes:
            return
        self.remove(pod)
        del self._moved[key]
        known = self._read.info(node_name).pods.get(key)
        if known is not None:
            self._changed[node_name] = self.info(node_name).with_pod(key, *known)
            self._changes.append(Change(known[0], node_name, 1))

    def nominations(self) -> dict[str, list[Pod]]:
        """Node name to the pending pods that the scheduler has promised it to."""
        nominated: dict[str, list[Pod]] = {}
        for pod in self._read.nominated():
            if pod_key(pod) not in self._moved:
                nominated.setdefault(pod.status.nominated_node_name, []).append(pod)
        return nominated

    @property
    def groups(self) -> PodGroups:
        """The pods on nodes as the snapshot has them, by group."""
        return self._read.groups()

    @property
    def counted_nodes(self) -> CountedNodes:
        """The nodes over which spread constraints count."""
        return self._read.counted_nodes

    def alike_pods(self, alike: Hashable) -> AlikePods:
        """What is known for all pods with the same ``alone.alike``, on whatever fork."""
        return self._read.alike.get(alike, AlikePods)

    def closed_alike(self, static_rules: Hashable) -> dict[str, Reasons]:
        """What is known of nodes by name for all pods with the same static rules, on whatever fork; filled by who asks."""
        return self._read.closed.get(static_rules, dict)

    def priority_of_class(self, name: str) -> int | None:
        """The priority that pods of the class have; None where the snapshot has none of them, or they differ."""
        return self._read.priorities().get(name)

    @property
    def storage(self) -> VolumeIndex:
        """The storage of the snapshot."""
        return self._read.storage()

    def volumes_of(self, pod: Pod) -> PodVolumes | None:
        """What the pod's volumes come to; None where none of them binds it to nodes."""
        return self._read.volumes_of(pod) if pod.spec.volumes else None

    def claim_in_use(self, claim: tuple[str, str]) -> bool:
        """Whether a pod on some node uses the claim of this namespace and name."""
        if any(key not in self._moved for key in self.storage.users(claim)):
            return True
        return any(home is not None and claim in claims_used(home[0]) for home in self._moved.values())

    def arrived(self) -> Iterator[Pod]:
        """The pods that are on another node than the snapshot has them on."""
        return (home[0] for home in self._moved.values() if home is not None)

    def _home(self, key: str, pod: Pod) -> str:
        if key in self._moved:
            home = self._moved[key]
            return home[1] if home is not None else ""
        return pod.spec.node_name


class _SnapshotPlacement:
    """The placement as it was read, worked out piece by piece and shared by all forks."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.positions: dict[str, int] = {name: position for position, name in enumerate(snapshot.nodes)}
        self.infos: dict[str, NodeInfo] = {}
        self.alike: BoundedCache[Hashable, AlikePods] = BoundedCache(MOST_KINDS)
        self.closed: BoundedCache[Hashable, dict[str, Reasons]] = BoundedCache(MOST_STATIC_KINDS)
        self._loads: dict[tuple[t.Any, ...], tuple[Pod, PodLoad]] = {}
        self._last_load: tuple[Pod, PodLoad] | None = None
        self._allocatable: dict[int, dict[str, int]] = {}
        self._nominated: list[Pod] | None = None
        self._storage: VolumeIndex | None = None
        self._last_volumes: tuple[Pod, PodVolumes | None] | None = None
        self._groups: PodGroups | None = None
        self._priorities: dict[str, int | None] | None = None
        self.counted_nodes = CountedNodes(snapshot.nodes)

    def info(self, node_name: str) -> NodeInfo:
        info = self.infos.get(node_name)
        if info is None:
            node = self.snapshot.nodes[node_name]
            pods = (pod for pod in self.snapshot.pods_by_node.get(node_name, ()) if not pod.terminal)
            info = NodeInfo.build(node, self._offer(node), {pod_key(pod): (pod, self.load(pod)) for pod in pods})
            self.infos[node_name] = info
        return info

    def take_over(self, other: _SnapshotPlacement) -> None:
        """What the other has worked out of nodes that have not changed.

        What is attached to their infos may be something else by now, so that is left behind.
        """
        nodes, other_nodes = self.snapshot.nodes, other.snapshot.nodes
        changed = _changed_nodes(self.snapshot, other.snapshot)
        for name, info in other.infos.items():
            node = nodes.get(name)
            if node is not None and node is other_nodes.get(name) and name not in changed:
                self.infos[name] = info if info.attached is None else info.without_attached()
        if other._groups is not None:
            self._groups = other._groups.after(_running_on(changed, other.snapshot), _running_on(changed, self.snapshot))

    def nominated(self) -> list[Pod]:
        if self._nominated is None:
            pending = (pod for pod in self.snapshot.pods if pod.status.nominated_node_name and not pod.spec.node_name)
            self._nominated = [pod for pod in pending if not pod.terminal]
        return self._nominated

    def groups(self) -> PodGroups:
        if self._groups is None:
            self._groups = PodGroups.of(pod for pod in self.snapshot.pods if pod.spec.node_name in self.snapshot.nodes and not pod.terminal)
        return self._groups

    def priorities(self) -> dict[str, int | None]:
        if self._priorities is None:
            found: dict[str, int | None] = {}
            for pod in self.snapshot.pods:
                name, priority = pod.spec.priority_class_name, pod.spec.priority
                if name and found.setdefault(name, priority) != priority:
                    found[name] = None
            self._priorities = found
        return self._priorities

    def storage(self) -> VolumeIndex:
        if self._storage is None:
            self._storage = VolumeIndex(self.snapshot, self.info)
        return self._storage

    def volumes_of(self, pod: Pod) -> PodVolumes | None:
        # Every volume rule asks for the same pod, and a simulation does so again and again.
        if self._last_volumes is None or self._last_volumes[0] is not pod:
            self._last_volumes = (pod, resolve(pod, self.storage()))
        return self._last_volumes[1]

    def load(self, pod: Pod) -> PodLoad:
        """What the pod takes on its node."""
        # Siblings share their parts (model/interning.py), so their load is worked out once. The pod is kept with it: what it
        # holds must live for as long as its ids are keys.
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
        if known is None:
            known = self._loads[key] = (pod, PodLoad.of(pod))
        # The pods of a simulated restart differ in their metadata only, and come one after another.
        self._last_load = (pod, known[1])
        return known[1]

    def _offer(self, node: Node) -> dict[str, int]:
        # Equal nodes share their allocatable as well, and the snapshot keeps it alive.
        key = id(node.status.allocatable)
        offer = self._allocatable.get(key)
        if offer is None:
            offer = self._allocatable[key] = allocatable(node)
        return offer


def _changed_nodes(after: ClusterSnapshot, before: ClusterSnapshot) -> set[str]:
    """The names by which one of the snapshots has a node that the other has not, or has other objects on it."""
    pods, other_pods = after.pods_by_node, before.pods_by_node
    changed = after.nodes.keys() ^ before.nodes.keys()
    changed.update(name for name in after.nodes if not _same_objects(pods.get(name, ()), other_pods.get(name, ())))
    return changed


def _running_on(node_names: Iterable[str], snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """The pods of those of the nodes that the snapshot has."""
    names = (name for name in node_names if name in snapshot.nodes)
    return (pod for name in names for pod in snapshot.pods_by_node.get(name, ()) if not pod.terminal)


def _same_objects(some: t.Sequence[Pod], others: t.Sequence[Pod]) -> bool:
    return some is others or (len(some) == len(others) and all(map(operator.is_, some, others)))


def pod_key(pod: Pod) -> str:
    """What tells pods apart: the uid, or namespace and name where a pod has none yet. Raises ValueError where it has neither."""
    metadata = pod.metadata
    if not metadata.uid and not metadata.name:
        raise ValueError("a pod without uid and name cannot be placed: give simulated pods a uid of their own")
    return metadata.uid or f"{metadata.namespace}/{metadata.name}"
