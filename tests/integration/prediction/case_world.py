# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Creates a random cluster on the lab, with each replica on its planned node, and removes it afterwards.

No scheduler runs in the meantime: the replicas are bound here. The scheduler of the case starts when all replicas are Ready.
"""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from lab.cluster import Cluster
from lab.second_scheduler import LOG_FILE, LOG_SCORES, second_scheduler
from tests.integration.oracle.cluster_writer import ClusterWriter
from tests.integration.prediction.random_case import NAMESPACE, PRIORITY_CLASS, CaseWorkload, Json, RandomCase
from tests.integration.prediction.random_profiles import DEFAULT_NAME

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
LIMIT_RANGES = f"/api/v1/namespaces/{NAMESPACE}/limitranges"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class CaseWorld(ClusterWriter):
    """A cluster without a scheduler, on which one random cluster after the other is created."""

    def __init__(self, cluster: Cluster, folder: Path, *, log_scores: bool = False) -> None:
        super().__init__(cluster)
        self._folder = folder
        self._flags = LOG_SCORES if log_scores else ()
        self.log_file = folder / LOG_FILE
        self.kubeconfig = cluster.kubeconfig

    def prepare(self) -> None:
        """End the cluster's scheduler, and create the objects that all cases share."""
        self._cluster.kill("kube-scheduler")
        self._add_namespaces({NAMESPACE: {}}, {})
        self._api.post("/apis/scheduling.k8s.io/v1/priorityclasses", PRIORITY_CLASS)

    @contextmanager
    def created(self, case: RandomCase) -> Iterator[tuple[str, ...]]:
        """Create the cluster, and run its scheduler. Give the value of the option ``scheduler_config``."""
        try:
            self._all(lambda node: self._api.post("/api/v1/nodes", node.manifest()), case.nodes)
            # Kwok has sometimes not seen pods of a node that it was just taking over.
            names = {node.name for node in case.nodes}
            self._wait(lambda: names <= self._leases(), "kwok has not taken over all nodes")
            self._all(lambda limit_range: self._api.post(LIMIT_RANGES, limit_range), case.limit_ranges)
            self._all(lambda pod: self._api.post(PODS, pod), case.fillers)
            self._all(lambda service: self._api.post(SERVICES, service), case.services)
            self._all(lambda workload: self._api.post(workload.path, workload.manifest), case.workloads)
            self._bind(case.workloads)
            self._wait_until_ready()
            for workload in case.workloads:
                if workload.stop_after_s:
                    self._annotate(workload)
            profiles = case.profiles or {"profiles": [{"schedulerName": DEFAULT_NAME}]}
            # The scheduler soon tries again to place a pod that did not fit.
            configuration = {**profiles, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
            with second_scheduler(self._cluster, configuration, self._folder, flags=self._flags):
                # The scheduler counts the nodes with an image when it sees a node. The count is right for nodes that change when all exist.
                self._label_nodes(names, "changed")
                self._wait_until_seen(case.nodes[-1].name)
                self._label_nodes(names, None)
                yield self._scheduler_config(case)
        finally:
            self._clear()

    def _scheduler_config(self, case: RandomCase) -> tuple[str, ...]:
        if case.profiles is None:
            return ()
        file = self._folder / "profiles.yaml"
        file.write_text(yaml.safe_dump(case.profiles))
        return (str(file),)

    def _bind(self, workloads: Sequence[CaseWorkload]) -> None:
        """Bind each replica to its node when its controller has created it."""
        by_name = {workload.name: workload for workload in workloads}
        bound: Counter[str] = Counter()
        done: set[str] = set()

        def bind_new() -> bool:
            for pod in self._api.get(f"{PODS}?fieldSelector=spec.nodeName=")["items"]:
                metadata = pod["metadata"]
                if metadata["uid"] in done:
                    continue
                workload = by_name[metadata["labels"]["app"]]
                first = workload.manifest["spec"].get("ordinals", {}).get("start", 0)
                number = int(metadata["name"].rpartition("-")[2]) - first if workload.kind == "StatefulSet" else bound[workload.name]
                target = {"apiVersion": "v1", "kind": "Node", "name": workload.node_names[number]}
                binding = {"metadata": {"name": metadata["name"]}, "target": target}
                answer = self._api.request("POST", f"{PODS}/{metadata['name']}/binding", binding)
                if answer.status == http.client.NOT_FOUND:  # a pod of a StatefulSet of this name in the case before
                    continue
                assert answer.status < http.client.BAD_REQUEST, answer
                bound[workload.name] += 1
                done.add(metadata["uid"])
            return len(done) == sum(len(workload.node_names) for workload in workloads)

        self._wait(bind_new, "not all replicas were created")

    def _annotate(self, workload: CaseWorkload) -> None:
        """Give each replica the time that it needs to end."""
        pods = self._api.get(f"{PODS}?labelSelector=app%3D{workload.name}")["items"]
        for pod, seconds in zip(pods, workload.stop_after_s, strict=False):
            annotations = {"lab.onprem/stop-after": str(seconds)}
            self._api.merge_patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": annotations}})

    def _wait_until_ready(self) -> None:
        try:
            self._wait(lambda: not self._not_ready(), "not all pods are Ready")
        except TimeoutError as error:
            found = [
                f"{pod['metadata']['name']} is {pod['status'].get('phase')} on {pod['spec'].get('nodeName')}" for pod in self._not_ready()
            ]
            raise TimeoutError("\n".join([str(error), *found])) from error

    def _leases(self) -> set[str]:
        """Return the names of the nodes that kwok simulates."""
        return {lease["metadata"]["name"] for lease in self._api.get(LEASES)["items"]}

    def _not_ready(self) -> list[Json]:
        return [pod for pod in self._api.get(PODS)["items"] if not _is_ready(pod)]

    def delete_workload(self, workload: CaseWorkload) -> None:
        """Delete the workload and its pods."""
        self._api.request("DELETE", f"{workload.path}/{workload.name}", {"propagationPolicy": "Foreground"})
        query = f"{PODS}?labelSelector=app%3D{workload.name}"
        self._wait(lambda: self._api.find(f"{workload.path}/{workload.name}") is None, "the workload was not deleted")
        self._api.request("DELETE", query, {"gracePeriodSeconds": 0})
        self._wait(lambda: not self._api.get(query)["items"], "its pods were not deleted")

    def _clear(self) -> None:
        """Delete everything of the case."""
        for kind in ("deployments", "statefulsets", "replicasets"):
            self._api.request("DELETE", f"{APPS}/{kind}", {"propagationPolicy": "Background"})
        self._api.request("DELETE", LIMIT_RANGES)
        services = [service["metadata"]["name"] for service in self._api.get(SERVICES)["items"]]
        self._all(lambda name: self._api.request("DELETE", f"{SERVICES}/{name}"), services)
        self._wait(self._no_pods, "not all pods were deleted")
        self._api.request("DELETE", "/api/v1/nodes")
        self._wait(lambda: not self._api.get("/api/v1/nodes?limit=1")["items"], "not all nodes were deleted")
        self._api.request("DELETE", LEASES)

    def _no_pods(self) -> bool:
        self._api.request("DELETE", PODS, {"gracePeriodSeconds": 0})
        sets = self._api.get(f"{APPS}/replicasets?limit=1")["items"] + self._api.get(f"{APPS}/statefulsets?limit=1")["items"]
        return not sets and not self._api.get(f"{PODS}?limit=1")["items"]


def _is_ready(pod: Json) -> bool:
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in pod["status"].get("conditions", ()))
