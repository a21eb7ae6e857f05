# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rescues during which the world changes, or the program dies: the end is the same, nothing is done twice, nothing stays held."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.errors import LabError
from tests.integration.api_servers import start_api_server
from tests.integration.kubernetes_version import MINOR
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.rescues import Json, Rescues, victims
from tests.integration.rescue.scene import ATTEMPTS, LEASE, SYSTEM, Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

pytestmark = pytest.mark.never_repeated


def in_background(work: Callable[[], Json]) -> Future[Json]:
    """Its result, or its error, is there when it has ended."""
    pool = ThreadPoolExecutor(max_workers=1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


def is_real_eviction(review: Review) -> bool:
    return is_eviction(review) and not review.get("dryRun")


def forget_lease(cluster: Cluster) -> None:
    """As if its holder had released it: tests of the Lease wait for its end."""
    if cluster.api.find(LEASE) is not None:
        cluster.api.merge_patch(LEASE, {"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}})


def attempts(cluster: Cluster) -> dict[str, str]:
    found = cluster.api.find(ATTEMPTS)
    return {} if found is None else found.get("data") or {}


class Killed:
    """A module that is killed when it asks for its n-th eviction, which is then rejected."""

    def __init__(self, scene: Scene, rescues: Rescues, pod: str) -> None:
        self._scene, self._rescues, self._pod = scene, rescues, pod
        self._process: subprocess.Popen[str] | None = None
        self._asked = 0
        self._dead = threading.Event()

    def at_eviction(self, number: int) -> None:
        def decide(review: Review) -> str | None:
            if not is_real_eviction(review):
                return None
            self._asked += 1
            if self._asked < number:
                return None
            self.kill()
            return "nobody is there to hear of it"

        with admission_webhook(self._scene.cluster, f"kill-{self._scene.id}", self._scene.namespace, decide):
            self.start()
            assert self._dead.wait(60), "it has asked for no eviction"

    def start(self) -> None:
        self._process = self._rescues.start(name=self._pod)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._dead.set()


@pytest.mark.parametrize("number", [1, 2])
def test_killed_between_hold_and_evictions(scene: Scene, rescues: Rescues, number: int) -> None:
    """After the hold, and after the first of two evictions; the next run waits for the Lease to run out once."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m", replicas=3)
    pod = scene.critical("dns", cpu="600m")
    Killed(scene, rescues, pod).at_eviction(number)
    assert scene.held() == [node] and len(scene.evictions()) == number - 1
    if number == 2:
        forget_lease(scene.cluster)
    row = rescues.one(pod)
    assert row["status"] == "rescued"
    assert len(scene.evictions()) == 2 and scene.held() == []
    (entry,) = [json.loads(text) for text in attempts(scene.cluster).values() if pod in text]
    assert (entry["attempts"], entry["under_way"], entry["victims"]) == (0, {}, {})


def killed_during_a_rescue(scene: Scene, rescues: Rescues, *, tolerates: bool = True, grace: int = 30) -> tuple[str, str]:
    """The node of a killed run, and its critical pod. The victim is still terminating. Without the toleration the node has no hold."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=grace)
    pod = scene.critical("dns", tolerates=tolerates)
    killed = Killed(scene, rescues, pod)
    killed.start()
    wait_until(lambda: len(scene.evictions()) == 1, what="the eviction")
    killed.kill()
    forget_lease(scene.cluster)
    return node, pod


@pytest.mark.parametrize("tolerates", [True, False])
def test_killed_while_it_waits(scene: Scene, rescues: Rescues, tolerates: bool) -> None:
    """Without the toleration the pod is nominated. The scheduler of 1.35 and later forgets that before the next run comes."""
    node, pod = killed_during_a_rescue(scene, rescues, tolerates=tolerates, grace=9)  # the next run has to wait
    assert scene.held() == ([node] if tolerates else [])
    if not tolerates and MINOR >= 35:
        scene.bare("short", node, cpu="10m")
        scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/short", {"gracePeriodSeconds": 0})
        wait_until(lambda: not scene.nominated(pod), what="a try of the scheduler without effect")
    row = rescues.one(pod)
    assert row["status"] == "rescued" and len(scene.evictions()) == 1 and scene.held() == []


def test_a_hold_of_a_killed_run_whose_pod_is_bound_or_gone_is_removed(scene: Scene, rescues: Rescues) -> None:
    """Also on a node that was cordoned meanwhile, and on one that has gone down."""
    nodes = scene.nodes(2)
    for name, node in zip(("one", "two"), nodes, strict=True):
        scene.occupant(name, node, cpu="800m", grace=30)
    pods = [scene.critical(f"dns{number}", node=name) for number, name in enumerate(nodes)]
    process = rescues.start(label_selector=f"scene={scene.id}")
    wait_until(lambda: len(scene.evictions()) == 2, what="the evictions")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sorted(scene.held()) == nodes
    scene.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/pods/{pods[1]}", {"gracePeriodSeconds": 0})
    scene.cluster.cordon(nodes[1])
    scene.end_terminating("one")
    wait_until(lambda: scene.bound_to(pods[0]) == nodes[0], what="the bound pod")
    forget_lease(scene.cluster)
    result = rescues.run(label_selector=f"scene={scene.id}")
    assert sorted(entry["node"] for entry in result["released"]) == nodes and result["changed"] and scene.held() == []
    assert scene.node(nodes[1])["spec"]["unschedulable"] is True


def test_state_released_releases_everything(scene: Scene, rescues: Rescues) -> None:
    node, pod = killed_during_a_rescue(scene, rescues)
    plan = rescues.run(state="released", check_mode=True)
    assert plan["released"] == [{"node": node, "pod": f"{SYSTEM}/{pod}"}] and scene.held() == [node]
    assert rescues.run(state="released")["released"] == plan["released"] and scene.held() == [] and not scene.nominated(pod)
    assert rescues.run(state="released") == {"changed": False, "failed": False, "pods": [], "released": [], "skipped_objects": []}


@contextmanager
def unwritable(scene: Scene, node: str) -> Iterator[None]:
    """An admission policy denies writes to this node."""
    base, name = "/apis/admissionregistration.k8s.io/v1", f"keep-{scene.id}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"], "resourceNames": [node]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "this node is kept"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for plural, kind, body in (
        ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", spec),
        ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", binding),
    ):
        document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": body}
        scene.api.request("POST", f"{base}/{plural}", document)

    def is_denied() -> bool:
        try:
            scene.api.merge_patch(f"/api/v1/nodes/{node}?dryRun=All", {"metadata": {"annotations": {"example.org/probe": "1"}}})
        except LabError as error:
            return "this node is kept" in str(error)
        return False

    try:
        wait_until(is_denied, what="the admission policy to be in force", timeout_s=60)
        yield
    finally:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            scene.api.request("DELETE", f"{base}/{plural}/{name}")
        wait_until(lambda: not is_denied(), what="the end of the admission policy", timeout_s=60)


def test_state_released_that_fails_for_one_node_returns_the_other_nodes(scene: Scene, rescues: Rescues) -> None:
    free, kept = scene.nodes(2)
    for number, name in enumerate((free, kept)):
        scene.occupant(f"web{number}", name, cpu="800m", grace=25)
    pods = {name: scene.critical(f"dns{number}", node=name) for number, name in enumerate((free, kept))}
    rescues.run(label_selector=f"scene={scene.id}", wait=False)
    assert sorted(scene.held()) == sorted((free, kept))
    with unwritable(scene, kept):
        result = rescues.module(state="released")
    assert result["failed"] and result["changed"], result
    assert result["released"] == [{"node": free, "pod": f"{SYSTEM}/{pods[free]}"}]
    assert f"not every hold could be removed: node {kept} " in result["msg"] and free not in result["msg"]
    (warning,) = [text for text in map(str, result["warnings"]) if kept in text]  # a text or a structure, by the version of Ansible
    assert "this node is kept" in warning
    assert scene.held() == [kept]
    assert rescues.run(state="released")["released"] == [{"node": kept, "pod": f"{SYSTEM}/{pods[kept]}"}] and scene.held() == []


def test_the_pod_is_deleted_meanwhile(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=300)
    pod = scene.critical("dns")
    running = in_background(lambda: rescues.run(name=pod, grace_period=300))
    wait_until(lambda: len(scene.evictions()) == 1 and scene.held() == [node], what="the eviction")
    scene.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/pods/{pod}", {"gracePeriodSeconds": 0})
    wait_until(lambda: scene.held() == [], what="the release")
    result = running.result(120)
    (row,) = result["pods"]
    assert row["reason"] == "pod_gone" and victims(row) == {"web"} and not result["failed"]


def test_the_owner_is_deleted_meanwhile(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=300)
    name = scene.daemon_set("cni")
    wait_until(lambda: len(scene.pods(name, SYSTEM)) == 1, what="the DaemonSet's pod")
    (pod,) = [pod["metadata"]["name"] for pod in scene.pods(name, SYSTEM)]
    scene.wait_unschedulable(pod)
    running = in_background(lambda: rescues.run(name=pod, grace_period=300))
    wait_until(lambda: len(scene.evictions()) == 1 and scene.held() == [node], what="the eviction")
    scene.api.request("DELETE", f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/{name}")
    wait_until(lambda: scene.held() == [], what="the release")
    (row,) = running.result(120)["pods"]
    assert row["reason"] == "pod_gone"


def begun_on_the_first_of_two(scene: Scene, rescues: Rescues, *, grace: int) -> tuple[str, str, Future[Json]]:
    """Two full nodes, and a run that has evicted the pod ``low`` from the first one. Return the nodes and the result of the run."""
    first, second = scene.nodes(2)
    scene.occupant("low", first, cpu="800m", priority="scene-low", grace=grace)
    scene.occupant("high", second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns")
    running = in_background(lambda: rescues.run(name=pod))
    wait_until(lambda: len(scene.evictions()) == 1 and scene.held() == [first], what="the eviction")
    return first, second, running


def test_the_node_is_cordoned_meanwhile(scene: Scene, rescues: Rescues) -> None:
    first, second, running = begun_on_the_first_of_two(scene, rescues, grace=6)
    scene.cluster.cordon(first)
    (row,) = running.result(120)["pods"]
    assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"low", "high"}) and scene.held() == []


def test_the_node_becomes_not_ready_meanwhile(scene: Scene, rescues: Rescues) -> None:
    """The kubelet of the node is gone: the pods that were evicted there never end, and the node is released."""
    first, second, running = begun_on_the_first_of_two(scene, rescues, grace=8)
    scene.stop_kubelet(first)
    (row,) = running.result(120)["pods"]
    assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"low", "high"}) and scene.held() == []


def test_a_budget_appears_meanwhile(scene: Scene, rescues: Rescues) -> None:
    """The server rejects the second of two evictions until its time is over. Then another node is cleared."""
    first, second = scene.nodes(2, cpu="1")
    scene.occupant("low", first, cpu="300m", replicas=3, priority="scene-low", grace=1)
    scene.occupant("high", second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns", cpu="600m")
    evictions = itertools.count(1)

    def decide(review: Review) -> str | None:
        if is_real_eviction(review) and next(evictions) == 2:
            # It has been asked for by then: a program that only reads budgets saw none.
            scene.budget_unchecked("low", "low", min_available=2)
            # The server asks webhooks first. It knows the budget before the controller does.
            path = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets/low"
            wait_until(lambda: scene.cluster.get(path).get("status", {}).get("observedGeneration"), timeout_s=20, what="the budget")
        return None

    with admission_webhook(scene.cluster, f"budget-{scene.id}", scene.namespace, decide):
        row = rescues.one(pod, evict_timeout=3, wait_timeout=60)
    assert (row["status"], row["node"]) == ("rescued", second), row
    assert sum(name.startswith("low") for name in scene.evictions()) == 1 and scene.held() == []


def test_the_api_server_is_restarted_meanwhile(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="400m", replicas=2, grace=6)
    pod = scene.critical("dns", cpu="900m")
    running = in_background(lambda: rescues.run(name=pod, wait_timeout=180))
    wait_until(lambda: len(scene.evictions()) >= 1, what="an eviction")
    scene.cluster.kill("kube-apiserver")
    start_api_server(scene.cluster)
    (row,) = running.result(400)["pods"]
    assert row["status"] == "rescued", row
    assert len(scene.evictions()) == 2 and scene.held() == []


def test_no_scheduler_no_evictions(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    scene.cluster.kill("kube-scheduler")
    try:
        wait_until(lambda: rescues.one(pod, check_mode=True)["reason"] == "scheduler_down", timeout_s=60, what="the stale Lease")
        time.sleep(2)  # clocks tell whole seconds
        row = rescues.one(pod)
        assert row["status"] == "impossible" and "kube-scheduler" in row["message"] and scene.evictions() == [], row
    finally:
        scene.cluster.start("kube-scheduler")
    wait_until(lambda: rescues.one(pod)["status"] == "rescued", timeout_s=60, what="the rescue")


def test_attempts_are_counted_and_end(scene: Scene, rescues: Rescues) -> None:
    """A pod that is never bound although the node has enough free capacity: its owner gets no more than it may, and people are told."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    uid = scene.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}")["metadata"]["uid"]
    scene.cluster.pause("kube-scheduler")
    try:
        result = rescues.run(name=pod, wait_timeout=3)
        (row,) = result["pods"]
        assert result["failed"] and row["reason"] == "not_bound" and victims(row) == {"web"} and scene.held() == []
        (entry,) = [text for text in attempts(scene.cluster).values() if pod in text]
        assert '"attempts":1' in entry
        scene.occupant("again", node, cpu="800m", wait=False, nodeName=node)
        wait_until(lambda: any(p["spec"].get("nodeName") for p in scene.pods("again")), what="the capacity being taken")
        row = rescues.one(pod, wait_timeout=1)
        assert row["reason"] == "backoff" and len(scene.evictions()) == 1
        row = rescues.one(pod, max_attempts=1)
        assert row["status"] == "impossible" and row["reason"] == "attempts_used_up" and len(scene.evictions()) == 1
        events = scene.cluster.get(f"/api/v1/namespaces/{SYSTEM}/events?fieldSelector=involvedObject.uid%3D{uid}")["items"]
        assert {"RescueStarted", "RescueFailed", "RescueAttemptsUsedUp"} <= {event["reason"] for event in events}
    finally:
        scene.cluster.resume("kube-scheduler")


def test_who_is_told_what(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    assert rescues.one(pod)["status"] == "rescued"

    def reasons(path: str, name: str) -> set[str]:
        items: list[dict[str, Any]] = scene.cluster.get(path)["items"]
        return {item["reason"] for item in items if item["involvedObject"]["name"].startswith(name)}

    assert {"RescueStarted", "RescueEviction", "Rescued"} <= reasons(f"/api/v1/namespaces/{SYSTEM}/events", pod)
    assert "EvictedForCriticalPod" not in reasons(f"/api/v1/namespaces/{scene.namespace}/events", "web"), "it is not one of `namespaces`"
    assert {"RescueHold", "RescueHoldReleased"} <= reasons("/api/v1/namespaces/default/events", node)


def test_two_runs_at_the_same_time_evict_as_one(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m", replicas=3, grace=2)
    pod = scene.critical("dns", cpu="600m")
    runs = [in_background(lambda: rescues.run(name=pod)) for _ in range(2)]
    rows = [run.result(120)["pods"][0] for run in runs]
    assert [row["status"] for row in rows] == ["rescued"] * 2
    assert len(scene.evictions()) == 2 and sorted(len(row["victims"]) for row in rows) == [0, 2] and scene.held() == []
