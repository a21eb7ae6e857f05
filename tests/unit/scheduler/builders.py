# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes, pods and placements for the tests of predicates, written as the API would send them."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, find_feasible

Json = dict[str, t.Any]

ROOM = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_NUMBERS = itertools.count()


def node(
    name: str = "node-1",
    *,
    labels: Json | None = None,
    taints: list[Json] | None = None,
    cordoned: bool = False,
    ready: bool = True,
    allocatable: Json | None = None,
    features: list[str] | None = None,
) -> Node:
    """A node with 4 cpu, 8Gi and 110 pods."""
    spec = {"unschedulable": cordoned, "taints": taints}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"allocatable": {**ROOM, **(allocatable or {})}, "conditions": conditions, "declaredFeatures": features}
    return decode_json(Node, encode_json({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}))


def container(requests: Json | None = None, *, limits: Json | None = None, ports: list[Json] | None = None, **more: t.Any) -> Json:
    """A container; its name is new unless given."""
    return {"name": f"c-{next(_NUMBERS)}", "resources": {"requests": requests, "limits": limits}, "ports": ports, **more}


def sidecar(requests: Json | None = None, **more: t.Any) -> Json:
    """A restartable init container."""
    return container(requests, restartPolicy="Always", **more)


def pod(
    requests: Json | None = None,
    *,
    on: str = "",
    labels: Json | None = None,
    namespace: str = "default",
    status: Json | None = None,
    **spec: t.Any,
) -> Pod:
    """A pod of one container, or of those in ``containers``; ``on`` is its node, other keywords go into its spec."""
    number = next(_NUMBERS)
    metadata = {"name": f"pod-{number}", "namespace": namespace, "uid": f"uid-{number}", "labels": labels}
    spec = {"nodeName": on, "priority": 0, "containers": [container(requests)], **spec}
    return decode_json(
        Pod, encode_json({"metadata": metadata, "spec": spec, "status": status or {"phase": "Running" if on else "Pending"}})
    )


def cluster_state(nodes: list[Node], pods: t.Iterable[Pod] = (), *, namespaces: Json | None = None, **snapshot: t.Any) -> ClusterState:
    """The placement of a snapshot with these objects; ``namespaces`` are names with labels."""
    known = [
        decode_json(Namespace, encode_json({"metadata": {"name": name, "labels": labels}})) for name, labels in (namespaces or {}).items()
    ]
    return ClusterState.of(ClusterSnapshot(nodes=nodes, pods=pods, namespaces=known, **snapshot))


def feasibility_of(pod: Pod, nodes: list[Node], pods: t.Iterable[Pod] = (), **snapshot: t.Any) -> Feasibility:
    """Where the pod can run."""
    return find_feasible(pod, cluster_state(nodes, pods, **snapshot))


def codes(pod: Pod, node: Node, pods: t.Iterable[Pod] = ()) -> list[str]:
    """The codes of the reasons for which the node does not take the pod; none where it is feasible."""
    feasibility = feasibility_of(pod, [node], pods)
    assert not feasibility.unknown_nodes
    return [reason.code for reason in feasibility.rejected.get(node.name, ())]


def node_affinity(*terms: Json) -> Json:
    """Required node affinity."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def affinity_term(match_labels: Json, topology_key: str = "kubernetes.io/hostname", **term: t.Any) -> Json:
    """A term of pod affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": match_labels}, "topologyKey": topology_key, **term}


def anti_affinity(match_labels: Json, topology_key: str = "kubernetes.io/hostname", **term: t.Any) -> Json:
    """Required pod anti-affinity with one term."""
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [affinity_term(match_labels, topology_key, **term)]}}


def pod_affinity(*terms: Json) -> Json:
    """Required pod affinity."""
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}
