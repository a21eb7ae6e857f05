# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the rules that look at one node alone say of it, kept once for all pods that these rules cannot tell apart."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Hashable, Mapping

from ..model.api.pod import Pod
from ..model.bounded_cache import BoundedCache
from ..model.codec import encode_json
from ..model.reason import Reasons
from ..model.snapshot import ClusterSnapshot
from .filters.node_ports import host_ports
from .node_info import NodeInfo
from .pod_requests import pod_requests
from .profile import Profile


class NodeLocalResult(t.NamedTuple):
    """Why a node is out, for as long as ``ClusterState.changed_infos`` has the same info of it, or none: an info itself never changes."""

    changed_info: t.Optional[NodeInfo]
    reasons: Reasons


class SnapshotResults(t.NamedTuple):
    """The answers about nodes as the snapshot has them: the names of those that are ``passing``, and why each other one is out."""

    names: tuple[str, ...]
    members: frozenset[str]
    passing: tuple[str, ...]
    rejected: Mapping[str, Reasons]


MAX_NODE_LISTS = 4
"""Lists of nodes of which the answers are kept for pods that are alike; mostly there is one, of the nodes that are eligible."""


class FilterCache:
    """What is known about the nodes of a snapshot for the kinds of pods that were asked about last, by ``pod_signature``."""

    def __init__(self, _snapshot: ClusterSnapshot) -> None:
        self._signatures: BoundedCache[Hashable, SignatureResults] = BoundedCache(MAX_SIGNATURES)

    def of(self, pod_signature: Hashable) -> SignatureResults:
        """What is known for all pods with this key."""
        return self._signatures.get(pod_signature, SignatureResults)


class SignatureResults:
    """What is known about nodes for all pods with the same ``pod_signature``. ``by_node``: by name, filled by the judges of the pods."""

    def __init__(self) -> None:
        self.by_node: dict[str, NodeLocalResult] = {}
        self._on_snapshot: BoundedCache[int, SnapshotResults] = BoundedCache(MAX_NODE_LISTS)

    def on_snapshot(self, names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> SnapshotResults:
        """The answers about these nodes, which the snapshot has and which are in its order; ``reasons_of`` is asked once about each."""
        return self._on_snapshot.get(id(names), lambda: _results(names, reasons_of))


def _results(names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> SnapshotResults:
    found = {name: reasons_of(name) for name in names}
    rejected = {name: reasons for name, reasons in found.items() if reasons}
    return SnapshotResults(names, frozenset(names), tuple(name for name in names if name not in rejected), rejected)


def pod_signature(pod: Pod, profile: Profile, devices: Collection[str]) -> Hashable:
    """Equal for pods that differ in nothing that the static rules, the room on a node and its host ports depend on.

    ``devices``: as of ``filters.node_resources_fit``. Raises QuantityError.
    """
    requests = pod_requests(pod, from_status=False)
    return static_signature(pod), tuple(requests.items()), host_ports(pod), frozenset(devices), profile


MAX_SIGNATURES = 64
"""Kinds of pods of which the answers about nodes are kept: pods with requests of their own must not fill the memory with them."""


def static_signature(pod: Pod) -> bytes:
    """All of the pod that the static rules depend on: they say the same of pods for which this is equal."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return encode_json((pod.spec.node_name, pod.spec.node_selector, affinity, pod.spec.tolerations))
