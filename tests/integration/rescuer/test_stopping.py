# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescuer that is told to stop releases what it has not finished, and no hold of another program."""

from __future__ import annotations

import json

from lab.cluster import Cluster
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import HOLD_ANNOTATION, HOLD_KEY, SYSTEM, Scene
from tests.integration.rescue.test_forged_marks import hash_of
from tests.integration.rescue.test_interrupted import ATTEMPTS, attempts
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.test_rescuer import full_node
from tests.integration.workloads import wait_until


def hold_of_another_program(scene: Scene, cluster: Cluster) -> str:
    """A node that is held for a pending pod of a namespace that this rescuer does not serve."""
    (node,) = scene.nodes(cpu="100m")
    pod = "other"
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "4"}}}
    spec = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}}
    made = scene.api.post(f"/api/v1/namespaces/{scene.namespace}/pods", {"metadata": {"name": pod}, "spec": spec})
    value = hash_of(pod, made["metadata"]["uid"], scene.namespace)
    fields = {"key": HOLD_KEY, "value": value, "namespace": scene.namespace, "pod": pod, "uid": made["metadata"]["uid"]}
    hold = {**fields, "owner": "", "deadline": "2199-01-01T00:00:00Z", "writer": "another"}
    record = {"node": node, "node_uid": scene.node(node)["metadata"]["uid"], "hold": hold}
    metadata = {"name": "kube-scheduling-rescue", "namespace": SYSTEM}
    data = {f"hold.{node}": json.dumps(record)}
    if cluster.api.find(ATTEMPTS) is None:
        cluster.api.post(ATTEMPTS.rpartition("/")[0], {"metadata": metadata})
    scene.api.merge_patch(ATTEMPTS, {"data": data})
    taint = {"key": HOLD_KEY, "value": value, "effect": "NoSchedule"}
    patch = {"metadata": {"annotations": {HOLD_ANNOTATION: json.dumps(hold)}}, "spec": {"taints": [taint]}}
    scene.api.merge_patch(f"/api/v1/nodes/{node}", patch)
    return node


def test_a_stop_releases_only_its_own_unfinished_holds(scene: Scene, cluster: Cluster, daemons: Start, rescues: Rescues) -> None:
    others = hold_of_another_program(scene, cluster)
    daemon = daemons("--stop-timeout=1s")
    wait_until(lambda: daemon.leads, timeout_s=40, what="a leader")
    own = full_node(scene, grace=9)
    pod = scene.critical("dns", node=own)
    wait_until(lambda: daemon.said("pod evicted"), timeout_s=40, what="an eviction")
    assert sorted(scene.held()) == sorted([own, others])
    assert daemon.stop() == 0
    assert scene.held() == [others] and f"hold.{others}" in attempts(cluster) and f"hold.{own}" not in attempts(cluster)
    assert scene.nominated(pod) == ""
    assert [entry["node"] for entry in rescues.run(state="released")["released"]] == [others] and scene.held() == []


def test_a_node_that_becomes_not_ready_is_given_back_and_another_one_is_cleared(scene: Scene, daemons: Start) -> None:
    daemon = daemons()
    wait_until(lambda: daemon.leads, timeout_s=40, what="a leader")
    first, second = scene.nodes(2)
    scene.occupant("low", first, cpu="800m", priority="scene-low", grace=8)
    scene.occupant("high", second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns")
    wait_until(lambda: scene.held() == [first] and len(scene.evictions()) == 1, what="the eviction")
    scene.stop_kubelet(first)
    wait_until(lambda: scene.bound_to(pod) == second, timeout_s=40, what=f"the other node; {daemon.log.read_text()}")
    wait_until(lambda: scene.held() == [], what="free nodes")
