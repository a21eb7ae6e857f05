# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The results of the node-local filters, stored once for all pods that these filters treat the same."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Hashable, Mapping

from ..model.api.pod import Pod
from ..model.caches import BoundedCache, IdentityCache
from ..model.reason import Reasons
from ..model.scheduler_profile import SchedulerProfile
from ..model.snapshot import ClusterSnapshot
from .node_info import NodeInfo, host_ports
from .pod_requests import pod_requests
from .static_signature import static_signature


class NodeLocalResult(t.NamedTuple):
    """The reasons that reject a node. They are valid while ``ClusterState.changed_infos`` has the same info of the node, or none as before.

    A NodeInfo never changes.
    """

    changed_info: t.Optional[NodeInfo]
    reasons: Reasons


class SnapshotResults(t.NamedTuple):
    """The results for nodes as the snapshot has them.

    ``passing``: the names of the nodes that pass. ``rejected``: the reasons for each other node.
    """

    names: tuple[str, ...]
    members: frozenset[str]
    passing: tuple[str, ...]
    rejected: Mapping[str, Reasons]


MAX_NODE_LISTS = 4
"""The number of node lists for which results are kept for each signature. Usually there is one list, the eligible nodes."""


class FilterCache:
    """The results for the nodes of a snapshot, for the pod signatures that were used last."""

    def __init__(self, _snapshot: ClusterSnapshot) -> None:
        self._signatures: BoundedCache[Hashable, SignatureResults] = BoundedCache(MAX_SIGNATURES)

    def of(self, pod_signature: Hashable) -> SignatureResults:
        """Return the results for all pods with this signature."""
        return self._signatures.get(pod_signature, SignatureResults)


class SignatureResults:
    """The results for nodes, for all pods with the same ``pod_signature``.

    ``by_node``: the results by node name; the FilterRunners of the pods add entries.
    """

    def __init__(self) -> None:
        self.by_node: dict[str, NodeLocalResult] = {}
        self._on_snapshot: IdentityCache[SnapshotResults] = IdentityCache(MAX_NODE_LISTS)

    def on_snapshot(self, names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> SnapshotResults:
        """Return the results for these nodes. ``reasons_of`` is called once for each node.

        ``names``: nodes that the snapshot has, in its order.
        """
        return self._on_snapshot.get((names,), lambda: _results(names, reasons_of))


def _results(names: tuple[str, ...], reasons_of: t.Callable[[str], Reasons]) -> SnapshotResults:
    found = {name: reasons_of(name) for name in names}
    rejected = {name: reasons for name, reasons in found.items() if reasons}
    return SnapshotResults(names, frozenset(names), tuple(name for name in names if name not in rejected), rejected)


def pod_signature(pod: Pod, profile: SchedulerProfile, devices: Collection[str]) -> Hashable:
    """Return a key that is equal for pods with the same static signature, requests and host ports.

    ``devices``: the result of ``filters.node_resources_fit.device_class_resources``. Raise QuantityError.
    """
    requests = pod_requests(pod, from_status=False)
    return static_signature(pod), tuple(requests.items()), host_ports(pod), frozenset(devices), profile


MAX_SIGNATURES = 64
"""The number of pod signatures for which results are kept. It bounds the memory if every pod has different requests."""
