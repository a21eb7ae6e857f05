# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Write a case to the cluster, get the result of the real scheduler, and read the cluster.

One additional node is a barrier: when the scheduler has read its newest label, it has read all nodes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot

from lab.cluster import Cluster
from lab.recorder import Recorder
from tests.integration.oracle.cases import DEVICE_CLASSES, RUNTIME_CLASSES, Case, Existing
from tests.integration.oracle.cluster_writer import BARRIER, MERGE_PATCH, ROUND_LABEL, ClusterWriter, owners_path
from tests.integration.oracle.pods_together import NAMESPACES, PRIORITY_CLASSES, Json
from tests.integration.oracle.profiles import OWNERS, SCHEDULER_NAME
from tests.integration.oracle.storage_cases import ephemeral_claims
from tests.integration.oracle.stored import Stored

ANSWER_TIMEOUT_S = 60.0
POLL_S = 0.02
SEEN_S = 0.1
"""In this time the scheduler has certainly seen a new claim."""


@dataclass(frozen=True)
class Answer:
    """The result of the real scheduler for one pod: the nodes that passed, and its message about the others."""

    sent: Json
    uid: str
    passed: frozenset[str]
    message: str


class World(ClusterWriter):
    """The cluster with the scheduler under observation."""

    def __init__(self, cluster: Cluster, reader: KubeApi, recorder: Recorder) -> None:
        super().__init__(cluster)
        self._reader = reader
        self._recorder = recorder
        self._round = 0
        self._stored = Stored(cluster.api, self._all)
        self._owners = {
            (namespace, kind): cluster.api.get(f"{owners_path(namespace, kind)}/owner")["metadata"]["uid"]
            for namespace in NAMESPACES
            for kind in OWNERS
        }

    @staticmethod
    def prepare(cluster: Cluster) -> None:
        """Create the objects that all cases share, and stop all components except the API server."""
        api = cluster.api
        ClusterWriter.add_namespaces(cluster, NAMESPACES, RUNTIME_CLASSES)
        for priority_class in PRIORITY_CLASSES.values():
            api.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
        for name, resource in DEVICE_CLASSES.items():
            api.post("/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}})
        Stored.prepare(api)
        ClusterWriter.isolate(cluster)
        for namespace in NAMESPACES:
            for kind, labels in OWNERS.items():
                template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
                spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
                api.post(owners_path(namespace, kind), {"metadata": {"name": "owner"}, "spec": spec})

    def play(self, case: Case) -> tuple[ClusterSnapshot, list[Answer]]:
        """Build the case, ask about its incoming pods, and read what the scheduler had before it."""
        self._round += 1
        self._clear()
        self._stored.create(case.storage)
        self._all(self._create_node, case.nodes)
        self._all(self._create_existing, list(enumerate(case.existing)))
        self._wait_until_seen()
        sent = dict(filter(None, self._all(self._create_incoming, list(enumerate(case.incoming)))))
        messages = self._wait_for_answers(set(sent))
        snapshot = read_snapshot(self._reader, pending_pods=True)
        answers = [Answer(manifest, uid, self._recorder.passed(uid), messages[uid]) for uid, manifest in sent.items()]
        return snapshot, answers

    def _clear(self) -> None:
        self._clear_pods_and_nodes(NAMESPACES)
        self._stored.clear()
        self._recorder.forget()

    def _create_node(self, node: Json) -> None:
        self._api.post("/api/v1/nodes", node)

    def _create_existing(self, numbered: tuple[int, Existing]) -> None:
        number, existing = numbered
        created = self._create_pod(existing.manifest, f"running-{number}")
        if created is None:
            return
        self._stored.create_claims(ephemeral_claims(created, others=False))
        path = f"/api/v1/namespaces/{created['metadata']['namespace']}/pods/{created['metadata']['name']}"
        if existing.status is not None:
            self._request("PATCH", f"{path}/status", {"status": existing.status}, content_type=MERGE_PATCH, may_refuse=True)
        if existing.terminating:
            self._request("DELETE", path, {"gracePeriodSeconds": 600})

    def _create_incoming(self, numbered: tuple[int, Json]) -> tuple[str, Json] | None:
        number, manifest = numbered
        waiting = any("ephemeral" in volume for volume in manifest["spec"].get("volumes", ()))
        gates = {"schedulingGates": [{"name": "oracle/claims"}]} if waiting else {}
        created = self._create_pod({**manifest, "spec": manifest["spec"] | gates}, f"incoming-{number}")
        if created is None:
            return None
        if waiting:
            self._open(created)
        return created["metadata"]["uid"], manifest

    def _open(self, pod: Json) -> None:
        """Create the pod's own claims, wait until the scheduler has read them, and remove the scheduling gate of the pod."""
        self._stored.create_claims(ephemeral_claims(pod, others=True))
        time.sleep(SEEN_S)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._request("PATCH", path, {"spec": {"schedulingGates": None}}, content_type=MERGE_PATCH)

    def _create_pod(self, manifest: Json, name: str) -> Json | None:
        metadata = manifest["metadata"]
        named = {**manifest, "metadata": {**metadata, "name": f"{name}-{self._round}"}}
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = self._owners[metadata["namespace"], owner["kind"]]
        return self._request("POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", named, may_refuse=True)

    def _wait_until_seen(self) -> None:
        """Label the barrier and ask for a pod that only fits there, until the scheduler knows the label."""
        label = {ROUND_LABEL: str(self._round)}
        self._label_node(BARRIER, label)
        volumes = [self._stored.probe()]
        spec = {
            "schedulerName": SCHEDULER_NAME,
            "nodeSelector": label,
            "containers": [{"name": "main", "image": "none"}],
            "volumes": volumes,
        }
        probe = self._create_pod({"metadata": {"namespace": "default"}, "spec": spec}, "probe")
        assert probe is not None
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while self._recorder.passed(probe["metadata"]["uid"]) != {BARRIER}:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the scheduler has not seen the nodes of round {self._round} after {ANSWER_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
        self._request("DELETE", f"/api/v1/namespaces/default/pods/{probe['metadata']['name']}", {"gracePeriodSeconds": 0})

    def _wait_for_answers(self, uids: set[str]) -> dict[str, str]:
        """The messages of the PodScheduled conditions, which the scheduler writes after it has asked the recorder."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            pods = self._api.get("/api/v1/pods?fieldSelector=spec.nodeName=")["items"]
            messages = {pod["metadata"]["uid"]: message for pod in pods if (message := _verdict(pod)) is not None}
            if uids <= messages.keys():
                return messages
            if time.monotonic() > deadline:
                raise TimeoutError(f"no answer for {len(uids - messages.keys())} pods after {ANSWER_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)


def _verdict(pod: Json) -> str | None:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition["reason"] != "SchedulingGated":
            assert condition["reason"] == "Unschedulable", f"the scheduler failed: {condition}"
            message: str = condition["message"]
            return message
    return None
