# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Write a case to the cluster, let the real scheduler place its pods, and read its scores from its log.

One additional node is a barrier: when the scheduler has placed a pod on it, it has read all nodes and all pods of the case.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot

from lab.cluster import Cluster
from lab.second_scheduler import SecondScheduler
from tests.integration.oracle.cluster_writer import BARRIER, MERGE_PATCH, ROUND_LABEL, ClusterWriter, owners_path
from tests.integration.oracle.scores.cases import NAMESPACES, OWNERS, RUNTIME_CLASSES, SERVICES, Existing, ScoreCase
from tests.integration.oracle.scores.profiles import DEFAULT, Json

ANSWER_TIMEOUT_S = 90.0
POLL_S = 0.05
FLAGS = ("-v=2", "--vmodule=schedule_one=10")

_ATTEMPT = re.compile(r'"Attempting to schedule pod" pod="(?P<pod>[^"]+)"')
_PLUGIN = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>\w+)" node="(?P<node>[^"]+)" score=(?P<score>-?\d+)'
)
_TOTAL = re.compile(r'"Calculated node\'s final score for pod" pod="(?P<pod>[^"]+)" node="(?P<node>[^"]+)" score=(?P<score>-?\d+)')


@dataclass
class Attempt:
    """One attempt of the scheduler to place a pod, with its scores. They are empty if fewer than two nodes are feasible."""

    pod: str
    by_plugin: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Played:
    """A case after the scheduler has placed its pods.

    ``snapshot``: the cluster before. ``attempts``: the attempts to place the pods of the case, in their order. ``pending`` and ``placed``:
    the pods of the case by namespace and name, as they were created and as they are at the end. With its node, a pod gets the labels of the
    node's zone and region.
    """

    snapshot: ClusterSnapshot
    attempts: list[Attempt]
    pending: dict[str, Pod]
    placed: dict[str, Pod]


class ScoreWorld(ClusterWriter):
    """The cluster with the scheduler whose scores are compared."""

    def __init__(self, cluster: Cluster, reader: KubeApi, scheduler: SecondScheduler) -> None:
        super().__init__(cluster)
        self._reader = reader
        self._scheduler = scheduler
        self._read_bytes = 0
        self._round = 0
        self._owners = {
            (namespace, kind, name): cluster.api.get(f"{owners_path(namespace, kind)}/{name}")["metadata"]["uid"]
            for namespace in NAMESPACES
            for kind, name in OWNERS
        }

    @staticmethod
    def prepare(cluster: Cluster) -> None:
        """Create the objects that all cases share, and stop all components except the API server."""
        api = cluster.api
        ClusterWriter.add_namespaces(cluster, NAMESPACES, RUNTIME_CLASSES)
        ClusterWriter.isolate(cluster)
        for namespace in NAMESPACES:
            for number, selector in enumerate(SERVICES):
                spec = {"selector": selector, "ports": [{"port": 80}], "clusterIP": "None"}
                api.post(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": f"service-{number}"}, "spec": spec})
            for (kind, name), labels in OWNERS.items():
                template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
                owner = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
                api.post(owners_path(namespace, kind), {"metadata": {"name": name}, "spec": owner})

    def play(self, case: ScoreCase) -> Played:
        """Build the case, read it, and let the scheduler place the pods."""
        self._round += 1
        self._clear_pods_and_nodes(NAMESPACES)
        self._all(lambda node: self._api.post("/api/v1/nodes", node), case.nodes)
        self._all(self._create_existing, list(enumerate(case.existing)))
        # The number of nodes with an image is up to date in the scheduler for nodes that were changed after all nodes were created.
        self._all(self._mark, [node["metadata"]["name"] for node in case.nodes])
        self._wait_until_seen()
        snapshot = read_snapshot(self._reader, pending_pods=True, for_scores=True)
        self._new_log_lines()
        created = [pod for pod in self._all(self._create_incoming, list(enumerate(case.incoming))) if pod is not None]
        pending = {_name(pod): pod for pod in created}
        self._wait_until_tried({pod.metadata.uid for pod in created})
        later = read_snapshot(self._reader, pending_pods=True)
        placed = {_name(pod): pod for pod in later.pods if _name(pod) in pending}
        return Played(snapshot, list(_attempts(self._new_log_lines(), placed)), pending, placed)

    def _mark(self, node_name: str) -> None:
        self._label_node(node_name, {ROUND_LABEL: str(self._round)})

    def _create_existing(self, numbered: tuple[int, Existing]) -> None:
        number, existing = numbered
        created = self._create_pod(existing.manifest, f"running-{number}")
        if created is None:
            return
        path = f"/api/v1/namespaces/{created['metadata']['namespace']}/pods/{created['metadata']['name']}"
        self._request("PATCH", f"{path}/status", {"status": existing.status}, content_type=MERGE_PATCH)
        if existing.terminating:
            self._request("DELETE", path, {"gracePeriodSeconds": 600})

    def _create_incoming(self, numbered: tuple[int, Json]) -> Pod | None:
        number, manifest = numbered
        created = self._create_pod(manifest, f"incoming-{number}")
        return None if created is None else decode_json(Pod, encode_json(created))

    def _create_pod(self, manifest: Json, name: str) -> Json | None:
        metadata = manifest["metadata"]
        for owner in metadata.get("ownerReferences", ()):
            owner["uid"] = self._owners.get((metadata["namespace"], owner["kind"], owner["name"]), "unknown")
        named = {**manifest, "metadata": {**metadata, "name": f"{name}-{self._round}"}}
        return self._request("POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", named, may_refuse=True)

    def _wait_until_seen(self) -> None:
        """Label the barrier, and wait until the scheduler places a pod that only fits there."""
        self._mark(BARRIER)
        wanted = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [BARRIER]}]}
        spec = {
            "schedulerName": DEFAULT,
            "nodeSelector": {ROUND_LABEL: str(self._round)},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}},
            "containers": [{"name": "main", "image": "none"}],
        }
        probe = self._create_pod({"metadata": {"namespace": "default"}, "spec": spec}, "probe")
        assert probe is not None
        path = f"/api/v1/namespaces/default/pods/{probe['metadata']['name']}"
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not self._api.get(path)["spec"].get("nodeName"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the scheduler has not seen the nodes of round {self._round} after {ANSWER_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
        self._request("DELETE", path, {"gracePeriodSeconds": 0})

    def _wait_until_tried(self, uids: set[str]) -> None:
        """Wait until each of the pods has a node, or a message that it does not fit."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            waiting = [pod for pod in self._api.get("/api/v1/pods?fieldSelector=spec.nodeName=")["items"] if pod["metadata"]["uid"] in uids]
            if all(pod["status"].get("conditions") for pod in waiting):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(waiting)} pods of round {self._round} were not tried after {ANSWER_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)

    def _new_log_lines(self) -> list[str]:
        with self._scheduler.log_file.open("rb") as log:
            log.seek(self._read_bytes)
            text = log.read()
        # The last line may be incomplete.
        end = text.rfind(b"\n") + 1
        self._read_bytes += end
        return text[:end].decode(errors="replace").splitlines()


def _attempts(lines: Iterable[str], pods: dict[str, Pod]) -> Iterator[Attempt]:
    """Yield the attempts for these pods."""
    attempt: Attempt | None = None
    for line in lines:
        begun = _ATTEMPT.search(line)
        if begun:
            if attempt is not None:
                yield attempt
            attempt = Attempt(begun["pod"]) if begun["pod"] in pods else None
        scored, total = _PLUGIN.search(line), _TOTAL.search(line)
        if attempt is None:
            continue
        if scored:
            assert scored["pod"] == attempt.pod
            attempt.by_plugin.setdefault(scored["plugin"], {})[scored["node"]] = int(scored["score"])
        if total:
            assert total["pod"] == attempt.pod
            attempt.totals[total["node"]] = int(total["score"])
    if attempt is not None:
        yield attempt


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
