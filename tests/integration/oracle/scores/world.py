# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Write a case to the cluster, let the real scheduler place its pods, and read its scores from its log.

One additional node is a barrier: when the scheduler has placed a pod on it, it has read all nodes and all pods of the case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot

from lab.cluster import Cluster
from lab.second_scheduler import LOG_FILE
from tests.integration.oracle.cluster_writer import BARRIER, ClusterWriter
from tests.integration.oracle.scores.cases import NAMESPACES, OWNERS, RUNTIME_CLASSES, SERVICES, ScoreCase
from tests.integration.oracle.scores.profiles import DEFAULT, Json

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
    """The cluster with the scheduler whose scores are compared. The scheduler's log is in ``folder``."""

    def __init__(self, cluster: Cluster, reader: KubeApi, folder: Path) -> None:
        super().__init__(cluster)
        self._reader = reader
        self._log_file = folder / LOG_FILE
        self._read_bytes = 0

    def prepare(self) -> None:
        """Create the objects that all cases share, and stop all components except the API server."""
        self._add_namespaces(NAMESPACES, RUNTIME_CLASSES)
        self._isolate()
        self._add_owners(NAMESPACES, OWNERS)
        for namespace in NAMESPACES:
            for number, selector in enumerate(SERVICES):
                spec = {"selector": selector, "ports": [{"port": 80}], "clusterIP": "None"}
                self._api.post(f"/api/v1/namespaces/{namespace}/services", {"metadata": {"name": f"service-{number}"}, "spec": spec})

    def play(self, case: ScoreCase) -> Played:
        """Build the case, read it, and let the scheduler place the pods."""
        self._round += 1
        self._clear_pods_and_nodes(NAMESPACES)
        self._all(lambda node: self._api.post("/api/v1/nodes", node), case.nodes)
        self._all(self._create_existing, list(enumerate(case.existing)))
        # The number of nodes with an image is up to date in the scheduler for nodes that were changed after all nodes were created.
        self._label_nodes([node["metadata"]["name"] for node in case.nodes], str(self._round))
        self._wait_until_seen(BARRIER, schedulerName=DEFAULT)
        snapshot = read_snapshot(self._reader, pending_pods=True, for_scores=True)
        self._new_log_lines()
        created = [pod for pod in self._all(self._create_incoming, list(enumerate(case.incoming))) if pod is not None]
        pending = {_name(pod): pod for pod in created}
        self._wait_until_tried({pod.metadata.uid for pod in created})
        later = read_snapshot(self._reader, pending_pods=True)
        placed = {_name(pod): pod for pod in later.pods if _name(pod) in pending}
        return Played(snapshot, list(_attempts(self._new_log_lines(), placed)), pending, placed)

    def _create_incoming(self, numbered: tuple[int, Json]) -> Pod | None:
        number, manifest = numbered
        created = self._create_pod(manifest, f"incoming-{number}")
        return None if created is None else decode_json(Pod, encode_json(created))

    def _wait_until_tried(self, uids: set[str]) -> None:
        """Wait until each of the pods has a node, or a message that it does not fit."""

        def all_tried() -> bool:
            waiting = self._api.get("/api/v1/pods?fieldSelector=spec.nodeName=")["items"]
            return all(pod["status"].get("conditions") for pod in waiting if pod["metadata"]["uid"] in uids)

        self._wait(all_tried, "not all pods were tried")

    def _new_log_lines(self) -> list[str]:
        with self._log_file.open("rb") as log:
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
