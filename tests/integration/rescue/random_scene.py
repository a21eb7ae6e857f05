# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A random cluster on the lab: its nodes among those of other cases, what runs on them, the critical pods.

Pods are made on their nodes, and then adopted by their owners, so that a seed always gives the same cluster.
"""

from __future__ import annotations

import time
from typing import Any

from lab.audit import AuditEvent
from lab.cluster import Cluster
from lab.scenario import NodeGroup
from tests.integration.rescue.random_clusters import CriticalPod, Group, RandomCluster
from tests.integration.rescue.scene import HOLD_ANNOTATION, HOLD_KEY, SCENE_LABEL, SYSTEM, Scene, is_ready
from tests.integration.workloads import IMAGE

Json = dict[str, Any]

CRITICAL_ANNOTATION = "scheduler.alpha.kubernetes.io/critical-pod"
HOSTNAME = "kubernetes.io/hostname"
APPS = "/apis/apps/v1/namespaces"
CONTROLLER_LAG_S = 1.0
"""A ReplicaSet that comes before its controller has heard of the pod makes another one, and then deletes one of the two."""
EVERYTHING: Json = {"operator": "Exists"}


class RandomScene(Scene):
    """The steps by which a case comes to the cluster, so that those of many cases can share their waits."""

    def __init__(self, cluster: Cluster, task: RandomCluster) -> None:
        super().__init__(cluster)
        self.task = task
        self._groups = {group.name: group for group in task.groups}
        self.node_names = [f"{self.id}-{number}-1" for number in range(len(task.nodes))]
        self._taints: dict[str, list[Json]] = {}

    # --- making -----------------------------------------------------------------------------------------------------------

    def node_groups(self) -> list[NodeGroup]:
        """Return the node groups from which the lab makes the nodes."""
        return [
            NodeGroup(
                f"{self.id}-{number}",
                labels={SCENE_LABEL: self.id},
                taints=node.taints,
                capacity={"cpu": f"{node.cpu}m", "memory": f"{node.memory}Mi", "pods": "10"},
                unschedulable=node.cordoned,
            )
            for number, node in enumerate(self.task.nodes)
        ]

    def create_pods(self) -> None:
        """All that runs, but for the pods of DaemonSets, which make their own."""
        for group in self.task.groups:
            if group.owner == "DaemonSet":
                self._create(f"{APPS}/{self.namespace}/daemonsets", self._workload(group, {HOSTNAME: self.node_names[group.places[0]]}))
                continue
            for number, place in enumerate(group.places):
                pod = self._bound(self._template(group, {SCENE_LABEL: self.id}), f"{group.name}-{number}", place)
                self._create(f"/api/v1/namespaces/{self.namespace}/pods", pod)
        for critical in self.task.critical:
            if critical.sibling is not None:
                pod = self._bound(self._critical_template(critical), self._whole(f"{critical.name}-sibling"), critical.sibling)
                self._create(f"/api/v1/namespaces/{SYSTEM}/pods", pod)

    def create_owners(self) -> None:
        """Owners adopt the pods that are there; budgets count them."""
        for group in self.task.groups:
            if group.owner == "ReplicaSet":
                self._create(f"{APPS}/{self.namespace}/replicasets", self._workload(group, {SCENE_LABEL: self.id}))
        for budget in self.task.budgets:
            healthy = sum(len(self._groups[name].places) for name in budget.groups if self._groups[name].ready)
            selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": list(budget.groups)}]}
            spec = {"minAvailable": healthy - budget.allowed, "selector": selector}
            path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
            self._create(path, {"metadata": {"name": budget.name}, "spec": spec})

    def create_critical(self) -> None:
        """The pods that the scheduler will find no node for, if the nodes are full."""
        for critical in self.task.critical:
            whole, template = self._whole(critical.name), self._critical_template(critical)
            template["metadata"]["name"] = whole
            self._create(f"/api/v1/namespaces/{SYSTEM}/pods", template)
        siblings = [critical for critical in self.task.critical if critical.sibling is not None]
        if siblings:
            time.sleep(CONTROLLER_LAG_S)
        for critical in siblings:
            whole = self._whole(critical.name)
            labels = {"app": whole}
            spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": self._critical_template(critical)}
            self._create(f"{APPS}/{SYSTEM}/replicasets", {"metadata": {"name": whole}, "spec": spec})

    def begin_leaving(self) -> None:
        """Delete the pods that are terminating when the rescue begins."""
        for group in self.task.groups:
            for number in range(len(group.places)) if group.leaving else ():
                path = f"/api/v1/namespaces/{self.namespace}/pods/{group.name}-{number}"
                self.api.request("DELETE", path, {"gracePeriodSeconds": group.leaving})

    # --- whether it is complete -------------------------------------------------------------------------------------------

    def is_running(self) -> bool:
        """All pods run, and those that shall be are Ready."""
        pods = self.pods()
        wanted = sum(len(group.places) for group in self.task.groups)
        ready = sum(len(group.places) for group in self.task.groups if group.ready)
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return len(pods) == len(running) == wanted and sum(map(is_ready, pods)) == ready

    def is_owned(self) -> bool:
        """Return whether each pod with a planned owner has it, there is no other pod, and the status of each budget is current."""
        pods = self.pods()
        owned = sum(len(group.places) for group in self.task.groups if group.owner)
        controlled = [pod for pod in pods if pod["metadata"].get("ownerReferences")]
        if len(controlled) != owned or len(pods) != sum(len(group.places) for group in self.task.groups):
            return False
        allowed = {item["metadata"]["name"]: (item.get("status") or {}).get("disruptionsAllowed") for item in self.budgets()}
        return allowed == {budget.name: budget.allowed for budget in self.task.budgets}

    def is_pending(self) -> bool:
        """Return whether the scheduler has a result for each critical pod, and each critical pod with a sibling has an owner."""
        for critical in self.task.critical:
            pod = self.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{self._whole(critical.name)}")
            if critical.sibling is not None and not pod["metadata"].get("ownerReferences"):
                return False
            if not any(condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions") or ()):
                return False
        return True

    def budgets(self) -> list[Json]:
        """The scene's PodDisruptionBudgets."""
        items: list[Json] = self.cluster.get(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets")["items"]
        return items

    def remember_taints(self) -> None:
        self._taints = {name: self.taints(name) for name in self.node_names}

    def changed_nodes(self) -> dict[str, tuple[list[Json], list[Json]]]:
        """Taints before and after, of nodes whose taints have changed or that have the annotation of a hold."""
        found = {}
        for name in self.node_names:
            node = self.node(name)
            now = node["spec"].get("taints") or []
            if now != self._taints[name] or HOLD_ANNOTATION in (node["metadata"].get("annotations") or {}):
                found[name] = (self._taints[name], now)
        return found

    def critical_names(self) -> list[str]:
        """Names of the critical pods, in the order of the case."""
        return [self._whole(critical.name) for critical in self.task.critical]

    # --- what the scheduler did -------------------------------------------------------------------------------------------

    def written(self) -> list[AuditEvent]:
        """The writes since the mark, in order, without dry runs and without those that concern the pods of other scenes."""
        events = self.cluster.audit().events(since=self.mark)
        return [event for event in events if event.code in (200, 201) and "dryRun" not in event.path and self._concerns(event)]

    def _concerns(self, event: AuditEvent) -> bool:
        return event.namespace == self.namespace or (event.namespace in ("", SYSTEM) and event.name.startswith(self.id))

    def scheduled(self) -> dict[str, str]:
        """The node of each pod that the scheduler has bound, by the pod's name, also of deleted pods."""
        found = {}
        for namespace in (self.namespace, SYSTEM):
            path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=reason%3DScheduled"
            for event in self.cluster.get(path)["items"]:
                found[event["involvedObject"]["name"]] = event["message"].rpartition(" to ")[2]
            for pod in self.cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
                found[pod["metadata"]["name"]] = pod["spec"].get("nodeName", "")
        return found

    def tolerates_hold(self, namespace: str, name: str) -> bool:
        """Return whether the pod tolerates the taint of a hold with any value."""
        if namespace != SYSTEM:
            return self._groups[name.rpartition("-")[0]].owner == "DaemonSet"
        critical = next(pod for pod in self.task.critical if name.startswith(self._whole(pod.name)))
        return any(
            toleration["operator"] == "Exists"
            and toleration.get("key", HOLD_KEY) == HOLD_KEY
            and toleration.get("effect") in (None, "NoSchedule")
            for toleration in critical.tolerations
        )

    # --- manifests --------------------------------------------------------------------------------------------------------

    def _whole(self, name: str) -> str:
        return f"{self.id}-{name}"

    def _create(self, path: str, body: Json) -> None:
        self.api.post(path, body)

    def _bound(self, template: Json, name: str, place: int) -> Json:
        metadata = {**template["metadata"], "name": name}
        return {"metadata": metadata, "spec": {**template["spec"], "nodeName": self.node_names[place]}}

    def _workload(self, group: Group, selector: Json) -> Json:
        template = self._template(group, selector)
        labels = {"app": group.name}
        spec: Json = {"selector": {"matchLabels": labels}, "template": template}
        if group.owner == "DaemonSet":
            template["spec"]["tolerations"] = [EVERYTHING]
        else:
            spec["replicas"] = len(group.places)
        return {"metadata": {"name": group.name}, "spec": spec}

    def _template(self, group: Group, selector: Json) -> Json:
        annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict": group.safe_to_evict} if group.safe_to_evict else {}
        annotations |= {} if group.ready else {"lab.onprem/ready": "false"}
        spec = _spec(group.cpu, group.memory, group.priority, group.grace, group.port)
        spec["nodeSelector"] = selector
        if group.volume is not None:
            spec["volumes"] = [{"name": "data", **group.volume}]
        if group.shuns_critical:
            spec["affinity"] = self._keep_off({"shunned": "yes"}, SYSTEM)
        labels = {"app": group.name, **({"shunned": "yes"} if group.shunned else {})}
        return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}

    def _critical_template(self, critical: CriticalPod) -> Json:
        spec = _spec(critical.cpu, critical.memory, critical.priority, 1, critical.port)
        spec["nodeSelector"] = {SCENE_LABEL: self.id}
        spec["tolerations"] = list(critical.tolerations)
        if critical.place is not None:
            spec["nodeSelector"][HOSTNAME] = self.node_names[critical.place]
        if critical.shy:
            spec["affinity"] = self._keep_off({"shunned": "yes"}, self.namespace)
        labels = {SCENE_LABEL: self.id, "app": self._whole(critical.name), **({"shunned": "yes"} if critical.shunned else {})}
        return {"metadata": {"labels": labels, "annotations": {CRITICAL_ANNOTATION: ""} if critical.annotated else {}}, "spec": spec}

    def _keep_off(self, labels: Json, namespace: str) -> Json:
        term = {"topologyKey": HOSTNAME, "namespaces": [namespace], "labelSelector": {"matchLabels": labels}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _spec(cpu: int, memory: int, priority: str, grace: int, port: int) -> Json:
    container: Json = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": grace}
    return {**spec, "priorityClassName": priority} if priority else spec
