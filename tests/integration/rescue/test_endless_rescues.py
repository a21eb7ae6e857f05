# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rescues beside a scheduler that preempts: no rescue begins a cycle of evictions and preemptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.rescue.conftest import preempting_cluster as cluster
from tests.integration.rescue.program import program
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import ATTEMPTS, SYSTEM, TOLERATION, Scene
from tests.integration.workloads import IMAGE, wait_until

__all__ = ["cluster"]

Json = dict[str, Any]

PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
ANNOTATED = {"scheduler.alpha.kubernetes.io/critical-pod": ""}


def test_pod_whose_replacement_could_preempt_the_rescued_pod_is_not_evicted(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", priority="scene-middle")
    pod = scene.critical("old", priority="", annotations=ANNOTATED)
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], scene.evictions()) == ("impossible", [])
    assert "would_preempt" in {blocker["reason"] for blocker in row["blockers"]} and "preempt" in row["message"]


def test_pod_of_higher_priority_that_never_preempts_is_evicted_for_an_annotated_pod(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", priority="scene-never")
    pod = scene.critical("old", priority="", annotations=ANNOTATED)
    row = rescues.one(pod, settle_time=2)
    assert (row["status"], row["node"], victims(row)) == ("rescued", node, {"web"})
    assert scene.bound_to(pod) == node


def test_rescue_whose_pod_loses_its_node_counts_as_a_failed_attempt(scene: Scene, rescues: Rescues) -> None:
    """A pod of higher priority preempts the rescued pod. Another run refuses the next rescue of the same owner for a while."""
    nodes = scene.nodes(2)
    for node in nodes:
        scene.occupant(f"web-{node}", node, cpu="800m")
    name = _annotated_replica_set(scene)
    wait_until(lambda: _is_pending(scene, name), what="the scheduler's word")
    (row,) = rescues.run(label_selector=f"app={name}", settle_time=1)["pods"]
    assert row["status"] == "rescued"
    assert (_attempts(scene, name)["attempts"], list(_attempts(scene, name)["rescued"])) == (0, [_pod_of(scene, name)["metadata"]["uid"]])

    scene.occupant("bully", row["node"], cpu="800m", priority="scene-high")
    wait_until(lambda: _is_pending(scene, name), what="the scheduler's word on the next pod")
    (row,) = rescues.run(label_selector=f"app={name}", settle_time=1, wait_timeout=5)["pods"]
    assert row["status"] == "waiting" and row["reason"] == "backoff" and row["victims"] == [], row
    assert len(scene.evictions()) == 1
    assert (_attempts(scene, name)["attempts"], len(_attempts(scene, name)["lost"])) == (1, 1)


ENDS: dict[str, Callable[[Scene, str, str], object]] = {
    "preempted": lambda scene, _name, node: scene.occupant("bully", node, cpu="800m", priority="scene-high"),
    "evicted": lambda scene, name, _node: scene.api.post(f"{PODS}/{name}/eviction", {**EVICTION, "metadata": {"name": name}}),
    "deleted": lambda scene, name, _node: scene.api.request("DELETE", f"{PODS}/{name}"),
    "deleted immediately": lambda scene, name, _node: scene.api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}),
    "succeeded": lambda scene, name, _node: scene.api.merge_patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}}),
}


@pytest.mark.parametrize("grace_s", [0, 2])
@pytest.mark.parametrize(
    ("how", "attempts"), [("preempted", 1), ("evicted", 1), ("deleted", None), ("deleted immediately", None), ("succeeded", None)]
)
def test_loss_of_a_node_is_counted_without_a_next_pod_and_an_end_by_work_or_owner_is_not(
    scene: Scene, how: str, attempts: int | None, grace_s: int
) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("old", priority="", annotations=ANNOTATED, terminationGracePeriodSeconds=grace_s)
    with program(scene, pod, settle_time=1, wait_timeout=120) as running:
        running.tick_until(lambda: [list(entry["rescued"]) for entry in _entries(scene, pod) if entry["rescued"]], timeout_s=120)
        ENDS[how](scene, pod, node)
        running.tick_until(lambda: not any(entry["rescued"] for entry in _entries(scene, pod)), timeout_s=120)
        assert [entry["attempts"] for entry in _entries(scene, pod)] == ([] if attempts is None else [attempts])


@pytest.mark.parametrize("uid", ["attempt.x", "a/b c", "x" * 300, "\u202e"])
def test_text_of_an_owner_reference_becomes_no_key_and_changes_no_record(scene: Scene, rescues: Rescues, uid: str) -> None:
    """The garbage collector keeps pods whose owner has an unknown kind."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    owner = {"apiVersion": "nowhere.example/v1", "kind": "K" * 2000, "name": "n", "uid": uid, "controller": True}
    pod = scene.critical("forged", priority="", annotations=ANNOTATED, owner_references=[owner])
    row = rescues.one(pod)
    assert (row["status"], row["node"], victims(row)) == ("rescued", node, {"web"})
    assert len(scene.evictions()) == 1 and scene.held() == []
    ((key, entry),) = ((key, entry) for key, entry in _data(scene).items() if entry.get("name") == f"{SYSTEM}/{pod}")
    assert re.fullmatch(r"attempt\.[0-9a-f]{64}", key) and len(entry["rescued"]) == 1
    assert all(key.startswith("attempt.") for key in _data(scene))


def _annotated_replica_set(scene: Scene) -> str:
    name = f"{scene.id}-old"
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "500m"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, "nodeSelector": {"scene": scene.id}, "tolerations": [TOLERATION]}
    template = {"metadata": {"labels": {"app": name}, "annotations": ANNOTATED}, "spec": spec}
    wanted = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    scene.cluster.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": SYSTEM}, "spec": wanted})
    return name


def _pod_of(scene: Scene, name: str) -> Json:
    found = [pod for pod in scene.pods(name, SYSTEM) if not pod["metadata"].get("deletionTimestamp")]
    return found[0] if len(found) == 1 else {"status": {}}


def _is_pending(scene: Scene, name: str) -> bool:
    conditions = _pod_of(scene, name)["status"].get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def _data(scene: Scene) -> dict[str, Json]:
    """Return the data of the ConfigMap, by key."""
    found = scene.cluster.api.find(ATTEMPTS) or {}
    return {key: json.loads(text) for key, text in (found.get("data") or {}).items()}


def _entries(scene: Scene, name: str) -> list[Json]:
    """The entries of a pod, or of the pods of an owner."""
    return [entry for entry in _data(scene).values() if entry.get("name", "").startswith(f"{SYSTEM}/{name}")]


def _attempts(scene: Scene, name: str) -> Json:
    """Return the stored attempts of the ReplicaSet."""
    (found,) = _entries(scene, name)
    return found
