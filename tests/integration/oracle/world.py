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
from tests.integration.oracle.cases import DEVICE_CLASSES, RUNTIME_CLASSES, Case
from tests.integration.oracle.cluster_writer import BARRIER, MERGE_PATCH, ClusterWriter, Existing, pod_path
from tests.integration.oracle.pods_together import NAMESPACES, PRIORITY_CLASSES, Json
from tests.integration.oracle.profiles import OWNERS, SCHEDULER_NAME
from tests.integration.oracle.storage_cases import ephemeral_claims
from tests.integration.oracle.stored import Stored

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
        self._stored = Stored(cluster.api, self._all)

    def prepare(self) -> None:
        """Create the objects that all cases share, and stop all components except the API server."""
        api = self._api
        self._add_namespaces(NAMESPACES, RUNTIME_CLASSES)
        for priority_class in PRIORITY_CLASSES.values():
            api.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority_class)
        for name, resource in DEVICE_CLASSES.items():
            api.post("/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": name}, "spec": {"extendedResourceName": resource}})
        Stored.prepare(api)
        self._isolate()
        self._add_owners(NAMESPACES, {(kind, "owner"): labels for kind, labels in OWNERS.items()})

    def play(self, case: Case) -> tuple[ClusterSnapshot, list[Answer]]:
        """Build the case, ask about its incoming pods, and read what the scheduler had before it."""
        self._round += 1
        self._clear()
        self._stored.create(case.storage)
        self._all(self._create_node, case.nodes)
        self._all(self._create_existing, list(enumerate(case.existing)))
        # The scheduler reads the claim of this volume after all others.
        self._wait_until_seen(BARRIER, schedulerName=SCHEDULER_NAME, volumes=[self._stored.probe()])
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

    def _create_existing(self, numbered: tuple[int, Existing]) -> Json | None:
        created = super()._create_existing(numbered)
        if created is not None:
            self._stored.create_claims(ephemeral_claims(created, others=False))
        return created

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
        self._request("PATCH", pod_path(pod), {"spec": {"schedulingGates": None}}, content_type=MERGE_PATCH)

    def _has_node(self, pod: Json) -> bool:
        # The scheduler under observation never binds.
        return self._recorder.passed(pod["metadata"]["uid"]) == {BARRIER}

    def _wait_for_answers(self, uids: set[str]) -> dict[str, str]:
        """The messages of the PodScheduled conditions, which the scheduler writes after it has asked the recorder."""
        messages: dict[str, str] = {}

        def all_answered() -> bool:
            pods = self._api.get("/api/v1/pods?fieldSelector=spec.nodeName=")["items"]
            messages.update({pod["metadata"]["uid"]: message for pod in pods if (message := _verdict(pod)) is not None})
            return uids <= messages.keys()

        self._wait(all_answered, "not all pods have an answer")
        return messages


def _verdict(pod: Json) -> str | None:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition["reason"] != "SchedulingGated":
            assert condition["reason"] == "Unschedulable", f"the scheduler failed: {condition}"
            message: str = condition["message"]
            return message
    return None
