# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The duration of a plan for one pod from a filled cache, and the duration of a tick in which nothing has changed.

``python -m tests.bench.rescue.planning KUBECONFIG`` prints JSON: ``pods``, by what the pod needs its ``status``, ``victims``, and
``wall_ms`` and ``cpu_ms`` of each plan; ``first``: those of the first tick; ``idle``: of ticks in which nothing has changed;
``nodes`` and ``running``: the number of nodes and of running pods.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, NamedTuple

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.gc_pause import gc_paused
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner

from tests.bench.rescue.crowd import CRITICAL_PRIORITY, ORDINARY, critical_pod

Json = dict[str, Any]

REPEATED = 7
OPTIONS = RescueOptions()
CHANGE_TIMEOUT_S = 10.0


class Took(NamedTuple):
    wall_ms: float
    cpu_ms: float


def main(kubeconfig: str) -> None:
    """Plan for one pod of each sort, again and again, each time after one pod of the cluster has changed."""
    api = KubeApi(open_transport(user_agent="bench", kubeconfig=kubeconfig))
    cache = ClusterInformer(api)
    cache.start()
    try:
        looks = Looks(api, cache)
        first = looks.look(None)[0]
        pods = {need: _planned(looks, pod) for need, pod in sorts().items()}
        idle = [looks.look(None)[0] for _number in range(3 * REPEATED)]
        snapshot = cache.snapshot()
        sizes = {"nodes": len(snapshot.nodes), "running": len(snapshot.pods)}
        print(json.dumps({"pods": pods, "first": _columns([first]), "idle": _columns(idle), **sizes}))
    finally:
        cache.stop()


def sorts() -> dict[str, Pod]:
    """Pods by what they need."""
    host_port = {"ports": [{"containerPort": 53, "hostPort": 53}]}
    pods = {
        "one small victim": critical_pod("small"),
        "capacity of half a node": critical_pod("half", cpu="4"),
        "capacity of a whole node": critical_pod("whole", cpu="7500m"),
        "memory": critical_pod("memory", requests={"memory": "20Gi"}),
        "a host port": critical_pod("port"),
        "one of ten zones": critical_pod("zone", nodeSelector={"topology.kubernetes.io/zone": "zone-7"}),
        "required anti-affinity": critical_pod("apart", affinity=_apart()),
        "one node (DaemonSet)": critical_pod("daemon", affinity=_only_on("worker-77")),
        "more than any node has": critical_pod("giant", cpu="9"),
    }
    pods["a host port"]["spec"]["containers"][0] |= host_port
    decoded = {need: _decoded(pod) for need, pod in pods.items()}
    return {**decoded, "capacity, but all others have a higher priority": _decoded(critical_pod("humble"), priority=min(ORDINARY) - 1)}


class Looks:
    """Ticks as in the rescuer: each planner uses the results of the planner before it, and the cyclic garbage collector is paused."""

    def __init__(self, api: KubeApi, cache: ClusterInformer) -> None:
        self._api, self._cache = api, cache
        self._planner: RescuePlanner | None = None
        self._stirred = 0
        self._pod = next(pod for pod in cache.snapshot().pods if pod.metadata.namespace.startswith("team-"))

    def look(self, pod: Pod | None) -> tuple[Took, RescuePlan | None]:
        """Read the newest state, and plan for the pod, if there is one."""
        with gc_paused():
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            self._planner = RescuePlanner(self._cache.snapshot(), OPTIONS, now_s=self._api.now_s(), earlier=self._planner)
            judgement = self._planner.plan_rescue(pod, RescueContext()) if pod is not None else None
            return Took((time.perf_counter() - wall_s) * 1000, (time.process_time() - cpu_s) * 1000), judgement

    def stir(self) -> None:
        """Change one pod, and wait until the cache has seen it."""
        version = self._cache.version
        self._stirred += 1
        metadata = self._pod.metadata
        self._api.merge_patch(PODS, metadata.namespace, metadata.name, {"metadata": {"labels": {"stirred": str(self._stirred)}}})
        if self._cache.wait_for_change(version, CHANGE_TIMEOUT_S) == version:
            raise SystemExit(f"the cache has not seen a change within {CHANGE_TIMEOUT_S:.0f} s")


def _planned(looks: Looks, pod: Pod) -> Json:
    took = []
    for _number in range(REPEATED):
        looks.stir()
        found, judgement = looks.look(pod)
        took.append(found)
    assert judgement is not None
    victims = len(judgement.choice.victims) if judgement.choice is not None else 0
    return {"status": judgement.status, "victims": victims, **_columns(took)}


def _columns(took: list[Took]) -> dict[str, list[float]]:
    return {name: [getattr(found, name) for found in took] for name in Took._fields}


def _decoded(manifest: Json, *, priority: int = CRITICAL_PRIORITY) -> Pod:
    manifest["metadata"]["uid"] = manifest["metadata"]["name"]
    manifest["spec"] |= {"priority": priority, "schedulerName": "default-scheduler"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod: Pod = decode_json(Pod, json.dumps({**manifest, "status": {"phase": "Pending", "conditions": [condition]}}))
    return pod


def _apart() -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _only_on(node: str) -> Json:
    """As the DaemonSet controller ties its pods to their nodes."""
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}}


if __name__ == "__main__":
    main(sys.argv[1])
