# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Small clusters for unit tests: nodes, Deployments and StatefulSets with their pods where a test wants them."""

from __future__ import annotations

import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import LimitRange, Namespace, ResourceQuota
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, NodeWithImages
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.policy import PodDisruptionBudget
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.storage import PersistentVolumeClaim
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import HorizontalPodAutoscaler, Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterObjects, ClusterSnapshot, Indexes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, find_feasible

from tests.unit.support.objects import NOW

Json = dict[str, t.Any]


def struct(kind: type[t.Any], value: Json) -> t.Any:
    """A struct from what the API would send."""
    return decode_json(kind, encode_json(value))


def revision_of(deployment: str) -> str:
    """The first revision of a Deployment of the ClusterBuilder. In a namespace, each pod template has a hash of its own."""
    return "hash1" if deployment == "web" else f"{deployment}-hash1"


def snapshot_of(
    *,
    indexes: Indexes | None = None,
    read_at_s: float = 0.0,
    profiles: Profiles = DEFAULT_PROFILES,
    server_version: str = "",
    **objects: t.Any,
) -> ClusterSnapshot:
    """A snapshot with these objects, by the fields of ClusterObjects."""
    found = ClusterObjects(**objects)
    return ClusterSnapshot(found, indexes=indexes, read_at_s=read_at_s, profiles=profiles, server_version=server_version)


class ClusterBuilder:
    """Collects objects; ``snapshot()`` indexes them. The default namespace is ``app``."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.pods: list[Pod] = []
        self.deployments: list[Workload] = []
        self.replica_sets: list[Workload] = []
        self.stateful_sets: list[Workload] = []
        self.namespaces: list[Namespace] = []
        self.budgets: list[PodDisruptionBudget] = []
        self.quotas: list[ResourceQuota] = []
        self.autoscalers: list[HorizontalPodAutoscaler] = []
        self.claims: list[PersistentVolumeClaim] = []
        self.limit_ranges: list[LimitRange] = []
        self.namespace("app", {"kube-scheduling.onprem/spread": "allow"})

    def namespace(self, name: str, annotations: dict[str, str] | None = None, phase: str = "Active") -> None:
        """A namespace."""
        value = {"metadata": {"name": name, "annotations": annotations or {}}, "status": {"phase": phase}}
        self.namespaces.append(struct(Namespace, value))

    def node(self, name: str, *, labels: dict[str, str] | None = None, ready: bool = True, **spec: t.Any) -> None:
        """A node with 4 cpu and 16Gi; ``allocatable`` overrides, other keywords go into its spec."""
        allocatable = spec.pop("allocatable", {"cpu": "4", "memory": "16Gi", "pods": "110"})
        value = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        }
        self.nodes.append(struct(NodeWithImages, value))

    def deployment(
        self,
        name: str,
        homes: t.Sequence[str],
        *,
        replicas: int | None = None,
        template: Json | None = None,
        metadata: Json | None = None,
        status: Json | None = None,
        **spec: t.Any,
    ) -> Workload:
        """A finished Deployment whose ready pods are on ``homes`` (an empty text is a pending pod)."""
        count = len(homes) if replicas is None else replicas
        value = {
            "metadata": {"name": name, "namespace": "app", "uid": f"d-{name}", "generation": 1, **(metadata or {})},
            "spec": {"replicas": count, "template": _template(name, template), **spec},
            "status": {
                "observedGeneration": 1,
                "replicas": count,
                "updatedReplicas": count,
                "readyReplicas": sum(bool(home) for home in homes),
                "availableReplicas": sum(bool(home) for home in homes),
                **(status or {}),
            },
        }
        workload: Workload = struct(Workload, value)
        force_setattr(workload, "kind", "Deployment")
        self.deployments.append(workload)
        revision = revision_of(name)
        self.replica_set(name, 1, revision)
        owner, labels = ("ReplicaSet", f"rs-{name}-{revision}"), {"pod-template-hash": revision}
        for index, home in enumerate(homes):
            self.pod(f"{name}-{index}", home, owner=owner, template=value["spec"]["template"], labels=labels)
        return workload

    def replica_set(self, deployment: str, revision: int, pod_template_hash: str, *, annotations: Json | None = None) -> None:
        """A ReplicaSet of a Deployment; the highest revision is the current one."""
        value = {
            "metadata": {
                "name": f"{deployment}-{pod_template_hash}",
                "namespace": "app",
                "uid": f"rs-{deployment}-{pod_template_hash}",
                "labels": {"pod-template-hash": pod_template_hash},
                "annotations": {"deployment.kubernetes.io/revision": str(revision), **(annotations or {})},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": f"d-{deployment}", "controller": True}
                ],
            }
        }
        self.replica_sets.append(struct(Workload, value))

    def stateful_set(
        self, name: str, homes: t.Sequence[str], *, template: Json | None = None, status: Json | None = None, **spec: t.Any
    ) -> Workload:
        """A finished StatefulSet, its pods on ``homes`` in the order of their ordinals."""
        value = {
            "metadata": {"name": name, "namespace": "app", "uid": f"s-{name}", "generation": 1},
            "spec": {
                "replicas": len(homes),
                "selector": {"matchLabels": {"app": name}},
                "template": _template(name, template),
                **spec,
            },
            "status": {
                "observedGeneration": 1,
                "replicas": len(homes),
                "updatedReplicas": len(homes),
                "readyReplicas": len(homes),
                "availableReplicas": len(homes),
                "currentRevision": "rev1",
                "updateRevision": "rev1",
                **(status or {}),
            },
        }
        workload: Workload = struct(Workload, value)
        force_setattr(workload, "kind", "StatefulSet")
        self.stateful_sets.append(workload)
        for index, home in enumerate(homes, start=workload.first_ordinal):
            labels = {"controller-revision-hash": "rev1"}
            self.pod(f"{name}-{index}", home, owner=("StatefulSet", f"s-{name}"), template=value["spec"]["template"], labels=labels)
        return workload

    def pod(
        self,
        name: str,
        node: str,
        *,
        owner: tuple[str, str] | None = None,
        template: Json | None = None,
        labels: Json | None = None,
        phase: str = "Running",
        **metadata: t.Any,
    ) -> None:
        """A pod; ``owner`` is (kind, uid) of its controller."""
        references = [{"apiVersion": "apps/v1", "kind": owner[0], "name": "x", "uid": owner[1], "controller": True}] if owner else []
        spec = dict((template or _template(name, None))["spec"])
        if node:
            spec["nodeName"] = node
        value = {
            "metadata": {
                "name": name,
                "namespace": "app",
                "uid": f"p-{name}",
                "labels": {"app": name.rpartition("-")[0], **(labels or {})},
                "ownerReferences": references,
                **metadata,
            },
            "spec": spec,
            "status": {
                "phase": phase if node else "Pending",
                "conditions": [{"type": "Ready", "status": "True" if node and phase == "Running" else "False"}],
            },
        }
        self.pods.append(struct(Pod, value))

    def budget(
        self,
        name: str,
        app: str,
        *,
        desired: int,
        current: int,
        labels: dict[str, str] | None = None,
        expected: int | None = None,
        generation: int = 1,
        observed: int | None = None,
        conditions: list[Json] | None = None,
    ) -> None:
        """A PodDisruptionBudget over the pods with label app, or ``labels``, with the status its controller would write.

        It counts ``expected`` pods, as many as are healthy unless given.
        """
        status = {"desiredHealthy": desired, "currentHealthy": current, "disruptionsAllowed": max(0, current - desired)}
        status["expectedPods"] = current if expected is None else expected
        value = {
            "metadata": {"name": name, "namespace": "app", "generation": generation},
            "spec": {"selector": {"matchLabels": labels or {"app": app}}},
            "status": {**status, "observedGeneration": generation if observed is None else observed, "conditions": conditions or []},
        }
        self.budgets.append(struct(PodDisruptionBudget, value))

    def quota(self, name: str, hard: dict[str, str], used: dict[str, str], **spec: t.Any) -> None:
        """A ResourceQuota with its counted use."""
        value = {"metadata": {"name": name, "namespace": "app"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}
        self.quotas.append(struct(ResourceQuota, value))

    def autoscaler(self, target: str, low: int, high: int, desired: int, *, api_version: str = "apps/v1", active: str = "True") -> None:
        """A HorizontalPodAutoscaler of a Deployment. ``api_version``: that of the target. ``active``: its condition ScalingActive."""
        value = {
            "metadata": {"name": f"hpa-{target}", "namespace": "app"},
            "spec": {
                "scaleTargetRef": {"apiVersion": api_version, "kind": "Deployment", "name": target},
                "minReplicas": low,
                "maxReplicas": high,
            },
            "status": {"desiredReplicas": desired, "conditions": [{"type": "ScalingActive", "status": active}]},
        }
        self.autoscalers.append(struct(HorizontalPodAutoscaler, value))

    def limit_range(self, **limit: t.Any) -> None:
        """A LimitRange with one limit for containers."""
        value = {"metadata": {"name": "limits", "namespace": "app"}, "spec": {"limits": [{"type": "Container", **limit}]}}
        self.limit_ranges.append(struct(LimitRange, value))

    def claim(self, name: str, *modes: str) -> None:
        """A PersistentVolumeClaim with its access modes."""
        value = {"metadata": {"name": name, "namespace": "app"}, "spec": {"accessModes": list(modes)}}
        self.claims.append(struct(PersistentVolumeClaim, value))

    def snapshot(self, **options: t.Any) -> ClusterSnapshot:
        """Return the snapshot that a reader would return."""
        return snapshot_of(
            nodes=self.nodes,
            pods=self.pods,
            namespaces=self.namespaces,
            deployments=self.deployments,
            stateful_sets=self.stateful_sets,
            replica_sets=self.replica_sets,
            budgets=self.budgets,
            quotas=self.quotas,
            autoscalers=self.autoscalers,
            claims=self.claims,
            limit_ranges=self.limit_ranges,
            **{"read_at_s": NOW, "services": (), **options},
        )


def _template(app: str, template: Json | None) -> Json:
    """A pod template of one container that asks for 100m cpu, changed by what the test gives as ``spec``."""
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}], **((template or {}).get("spec") or {})}
    return {"metadata": {"labels": {"app": app}, **((template or {}).get("metadata") or {})}, "spec": spec}


def workers(count: int, *, zones: int = 2) -> ClusterBuilder:
    """A cluster of ``count`` equal workers, dealt over zones a, b, ..."""
    cluster = ClusterBuilder()
    for index in range(count):
        cluster.node(f"worker-{index + 1}", labels={"topology.kubernetes.io/zone": "abcdef"[index % zones]})
    return cluster


def cluster_state(nodes: list[Node], pods: t.Iterable[Pod] = (), *, namespaces: Json | None = None, **snapshot: t.Any) -> ClusterState:
    """The cluster_state of a snapshot with these objects; ``namespaces`` are names with labels."""
    known = [
        decode_json(Namespace, encode_json({"metadata": {"name": name, "labels": labels}})) for name, labels in (namespaces or {}).items()
    ]
    return ClusterState.of(snapshot_of(nodes=nodes, pods=pods, namespaces=known, **snapshot))


def feasibility_of(pod: Pod, nodes: list[Node], pods: t.Iterable[Pod] = (), **snapshot: t.Any) -> Feasibility:
    """Return the feasibility of the pod on these nodes."""
    return find_feasible(pod, cluster_state(nodes, pods, **snapshot))


def codes(pod: Pod, node: Node, pods: t.Iterable[Pod] = ()) -> list[str]:
    """The codes of the reasons for which the node does not take the pod; none where it is feasible."""
    feasibility = feasibility_of(pod, [node], pods)
    assert not feasibility.unknown_nodes
    return [reason.code for reason in feasibility.rejected.get(node.name, ())]
