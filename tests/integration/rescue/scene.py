# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small full nodes of one test, the pods on them, and critical pods that do not fit."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import Hold, hash_of, taint_json

from lab.cluster import Cluster
from lab.scenario import NodeGroup, Scenario
from tests.integration.kubernetes_version import MINOR
from tests.integration.workloads import IMAGE, wait_until

Json = dict[str, Any]

SYSTEM = "kube-system"
CRITICAL = "system-cluster-critical"
HOLD_KEY = "CriticalAddonsOnly"
HOLD_ANNOTATION = "kube-scheduling.onprem/hold"
TOLERATION = {"key": HOLD_KEY, "operator": "Exists"}
PRIORITIES = {"scene-low": 100, "scene-middle": 1000, "scene-high": 1_000_000}
SCENE_LABEL = "scene"
ATTEMPTS = f"/api/v1/namespaces/{SYSTEM}/configmaps/kube-scheduling-rescue"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/kube-scheduling-rescue"

_NUMBERS = itertools.count(1)


def nomination_when_bound(node: str) -> str:
    """The nomination of a pod that is bound to the node. The API server removes it since 1.35 (ClearingNominatedNodeNameAfterBinding)."""
    return "" if MINOR >= 35 else node


def priority_classes() -> list[Json]:
    """Classes for ordinary pods."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    never = {**kind, "metadata": {"name": "scene-never"}, "value": 1000, "preemptionPolicy": "Never"}
    return [never, *({**kind, "metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items())]


def prepared_for_scenes(cluster: Cluster) -> Iterator[Cluster]:
    """Yield the cluster with these classes, which are deleted afterwards."""
    cluster.apply(priority_classes())
    yield cluster
    for made in priority_classes():
        cluster.api.request("DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{made['metadata']['name']}")


class Scene:
    """Everything that one test makes; ``close`` takes it away."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.id = f"s{next(_NUMBERS)}-{secrets.token_hex(2)}"
        self.namespace = self.id
        self.node_names: list[str] = []
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        cluster.wait_namespace(self.namespace)
        self.mark = cluster.audit().mark()

    # --- nodes ---

    def nodes(self, count: int = 1, *, cpu: str = "1", taints: tuple[Json, ...] = (), **capacity: str) -> list[str]:
        """So many more nodes, only for pods of this scene."""
        room = {"cpu": cpu, "memory": "8Gi", "pods": "20", **capacity}
        prefix = f"{self.id}-{len(self.node_names)}"
        group = NodeGroup(prefix, count=count, labels={SCENE_LABEL: self.id}, taints=taints, capacity=room)
        self.cluster.add_nodes(Scenario(self.id, (group,)))
        names = [group.node_name(index) for index in range(count)]
        self.node_names += names
        return names

    def node(self, name: str) -> Json:
        return self.cluster.get(f"/api/v1/nodes/{name}")

    def taints(self, name: str) -> list[Json]:
        """The node's taints."""
        return self.node(name)["spec"].get("taints") or []

    def held(self) -> list[str]:
        """Return the scene's nodes with the annotation of a hold, or with a taint of its key."""
        found = []
        for name in self.node_names:
            node = self.node(name)
            text = (node["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
            if text is not None or any(taint["key"] == HOLD_KEY for taint in node["spec"].get("taints") or ()):
                found.append(name)
        return found

    def hold(self, node: str, pod: str, *, deadline_s: int, namespace: str = SYSTEM) -> None:
        """Replace the taints of the node by the taint of a hold for the pod."""
        found = decode_json(Pod, json.dumps(self.cluster.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")))
        taint = Hold(HOLD_KEY, hash_of(found), deadline_s).taint
        self.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [taint_json(taint)]}})

    def stop_kubelet(self, name: str) -> None:
        """Make the node NotReady. Its pods do not end any more."""
        self.api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}})
        conditions = self.node(name)["status"]["conditions"]
        down = [{**c, "status": "False", "reason": "KubeletNotReady"} if c["type"] == "Ready" else c for c in conditions]
        self.api.merge_patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": down}})

    # --- what runs ---

    def occupant(
        self,
        name: str,
        node: str = "",
        *,
        cpu: str = "500m",
        priority: str = "",
        grace: int = 1,
        replicas: int = 1,
        annotations: Json | None = None,
        namespace: str = "",
        wait: bool = True,
        **spec: Any,
    ) -> None:
        """A ReplicaSet with ready pods on the node, or on any of the scene's; other keywords go into the pods' spec."""
        selector = {"kubernetes.io/hostname": node} if node else {SCENE_LABEL: self.id}
        pod = {**self._spec(cpu, priority, grace), "nodeSelector": selector, **spec}
        template = {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": pod}
        self.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {"name": name, "namespace": namespace or self.namespace},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
            }
        )
        if wait:
            self.wait_ready(name, replicas, namespace=namespace)

    def bare(self, name: str, node: str, *, cpu: str = "500m", priority: str = "", grace: int = 1, **spec: Any) -> None:
        """A pod without a controller, which nothing replaces after it is deleted."""
        pod = {**self._spec(cpu, priority, grace), "nodeSelector": {"kubernetes.io/hostname": node}, **spec}
        self.cluster.apply(_pod(self.namespace, name, pod, labels={"app": name}))
        wait_until(lambda: self.bound_to(name, self.namespace), what=f"pod {name}")

    def budget(self, name: str, app: str, *, allowed: int, replicas: int) -> None:
        """Create a PodDisruptionBudget that allows so many disruptions of the app, and wait until its status is current."""
        self.budget_unchecked(name, app, min_available=replicas - allowed)
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/{name}"

        def is_worked_out() -> bool:
            status = self.cluster.get(path).get("status") or {}
            return status.get("expectedPods") == replicas and status.get("disruptionsAllowed") == allowed

        wait_until(is_worked_out, what=f"budget {name}")

    def budget_unchecked(self, name: str, app: str, *, min_available: int) -> None:
        """Create a PodDisruptionBudget whose status may not be current yet."""
        self.cluster.apply(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}},
            }
        )

    def critical(
        self,
        name: str,
        *,
        cpu: str = "500m",
        node: str = "",
        priority: str = CRITICAL,
        tolerates: bool = True,
        annotations: Json | None = None,
        owner_references: list[Json] | None = None,
        wait: bool = True,
        **spec: Any,
    ) -> str:
        """A pod of kube-system for the scene's nodes, which the scheduler has found no node for; returns its whole name."""
        whole = f"{self.id}-{name}"
        selector = {"kubernetes.io/hostname": node} if node else {SCENE_LABEL: self.id}
        pod = {**self._spec(cpu, priority, 1), "nodeSelector": selector, "tolerations": [TOLERATION] if tolerates else [], **spec}
        made = _pod(SYSTEM, whole, pod, annotations=annotations, labels={SCENE_LABEL: self.id})
        made["metadata"]["ownerReferences"] = owner_references or []
        self.cluster.apply(made)
        if wait:
            self.wait_unschedulable(whole)
        return whole

    def daemon_set(self, name: str, *, cpu: str = "500m", priority: str = "system-node-critical") -> str:
        """A DaemonSet of kube-system over the scene's nodes."""
        whole = f"{self.id}-{name}"
        pod = {**self._spec(cpu, priority, 1), "nodeSelector": {SCENE_LABEL: self.id}, "tolerations": [TOLERATION]}
        template = {"metadata": {"labels": {"app": whole}}, "spec": pod}
        self.cluster.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": whole, "namespace": SYSTEM},
                "spec": {"selector": {"matchLabels": {"app": whole}}, "template": template},
            }
        )
        return whole

    def end_terminating(self, app: str) -> None:
        """End the app's pods that are terminating, whatever is left of their grace periods."""
        for pod in self.pods(app):
            if "deletionTimestamp" in pod["metadata"]:
                path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                self.api.request("DELETE", path, {"gracePeriodSeconds": 0})

    # --- reading ---

    def pods(self, app: str = "", namespace: str = "") -> list[Json]:
        """The pods of an app, or all of the scene's namespace."""
        selector = f"?labelSelector=app%3D{app}" if app else ""
        items: list[Json] = self.cluster.get(f"/api/v1/namespaces/{namespace or self.namespace}/pods{selector}")["items"]
        return items

    def bound_to(self, name: str, namespace: str = SYSTEM) -> str:
        """The node of a pod; empty where it has none, or where there is no such pod."""
        pod = self.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return "" if pod is None else pod["spec"].get("nodeName", "")

    def nominated(self, name: str) -> str:
        """The node that a pod of kube-system is nominated for."""
        found: str = self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{name}")["status"].get("nominatedNodeName", "")
        return found

    def wait_ready(self, app: str, count: int, *, namespace: str = "") -> None:
        def ready() -> bool:
            return sum(is_ready(pod) for pod in self.pods(app, namespace)) == count

        wait_until(ready, what=f"{count} ready pods of {app}")

    def wait_unschedulable(self, name: str, namespace: str = SYSTEM) -> None:
        def marked() -> bool:
            pod = self.cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
            conditions = pod["status"].get("conditions") or ()
            return any(c["type"] == "PodScheduled" and c["status"] == "False" and c.get("reason") == "Unschedulable" for c in conditions)

        wait_until(marked, what=f"the scheduler's word on {name}")

    def evictions(self, *, dry_run: bool = False) -> list[str]:
        """Pods of which the server has granted the eviction since the scene began, from all clients."""
        events = self.cluster.audit().events(since=self.mark, verb="create", resource="pods")
        return [
            event.name
            for event in events
            if event.subresource == "eviction"
            and event.code == 201
            and ("dryRun" in event.path) == dry_run
            and event.namespace == self.namespace
        ]

    def close(self) -> None:
        # Pods come last, so that their controllers do not replace them.
        for kind in ("apis/apps/v1/{}/daemonsets", "apis/apps/v1/{}/replicasets", "api/v1/{}/pods"):
            path = "/" + kind.format(f"namespaces/{SYSTEM}")
            for item in self.cluster.get(path)["items"]:
                if item["metadata"]["name"].startswith(self.id):
                    self.api.request("DELETE", f"{path}/{item['metadata']['name']}", {"gracePeriodSeconds": 0})
        self.api.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        self.api.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods", {"gracePeriodSeconds": 0})
        for name in self.node_names:
            self.api.request("DELETE", f"/api/v1/nodes/{name}")

    def _spec(self, cpu: str, priority: str, grace: int) -> Json:
        container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}}
        spec: Json = {"containers": [container], "terminationGracePeriodSeconds": grace}
        return {**spec, "priorityClassName": priority} if priority else spec


def _pod(namespace: str, name: str, spec: Json, *, annotations: Json | None = None, labels: Json | None = None) -> Json:
    metadata = {"namespace": namespace, "name": name, "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def is_ready(pod: Json) -> bool:
    """Its condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
