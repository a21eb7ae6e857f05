# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""JSON patches and their tests, evictions with a grace of their own, and Events, as a real API server takes them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import BudgetError, InvalidError, PatchTestError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.events import (
    ObjectReference,
    make_event,
    node_reference,
    pod_reference,
    workload_reference,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES, PODS, WORKLOADS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time, parse_time

from lab.cluster import Cluster
from tests.integration.wire import wire
from tests.integration.workloads import IMAGE, budget, deployment, wait_rolled_out, wait_until

NODE = "worker-2"
OURS = {"key": "example.com/ours", "value": "x", "effect": "NoSchedule"}
THEIRS = {"key": "example.com/theirs", "value": "y", "effect": "PreferNoSchedule"}
_NUMBERS = itertools.count(1)


@pytest.fixture(autouse=True)
def untainted(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.api.merge_patch(f"/api/v1/nodes/{NODE}", {"spec": {"taints": None}})


def put(before: list[dict[str, str]] | None, after: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [{"op": "test", "path": "/spec/taints", "value": before}, {"op": "add", "path": "/spec/taints", "value": after}]


def taints(cluster: Cluster) -> Any:
    return cluster.get(f"/api/v1/nodes/{NODE}")["spec"].get("taints")


def test_a_patch_whose_test_holds_is_applied(cluster: Cluster, api: KubeApi) -> None:
    node = api.json_patch(NODES, "", NODE, put(None, [OURS]))
    assert [taint.key for taint in node.spec.taints] == [OURS["key"]] and taints(cluster) == [OURS]
    api.json_patch(NODES, "", NODE, put([OURS], [OURS, THEIRS]), dry_run=True)
    assert taints(cluster) == [OURS]


@pytest.mark.parametrize(
    "operations",
    [
        put(None, [OURS]),
        put([OURS], [THEIRS]),
        [{"op": "test", "path": "/spec/taints/0", "value": THEIRS}, {"op": "remove", "path": "/spec/taints/7"}],
        [{"op": "test", "path": "/metadata/annotations/none", "value": "x"}],
    ],
    ids=["nothing expected", "something else expected", "an index that is gone", "a path that is gone"],
)
def test_a_patch_whose_test_does_not_hold_changes_nothing(cluster: Cluster, api: KubeApi, operations: list[dict[str, Any]]) -> None:
    cluster.api.merge_patch(f"/api/v1/nodes/{NODE}", {"spec": {"taints": [THEIRS]}})
    with pytest.raises(PatchTestError, match=f"cannot patch Node {NODE}") as caught:
        api.json_patch(NODES, "", NODE, operations)
    assert not caught.value.repeated and taints(cluster) == [THEIRS]


@pytest.mark.parametrize("wrong", [{"key": "-", "effect": "NoSchedule"}, {"key": "a", "effect": "Nonsense"}])
def test_what_the_server_finds_invalid_is_no_failed_test(cluster: Cluster, api: KubeApi, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidError) as caught:
        api.json_patch(NODES, "", NODE, put(None, [wrong]))
    assert not isinstance(caught.value, PatchTestError) and caught.value.status == 422


def test_a_patch_whose_answer_is_lost_is_made_once_and_says_so(cluster: Cluster, user: Path, tmp_path: Path) -> None:
    with wire(cluster, tmp_path, user=user) as (line, kubeconfig):
        api = KubeApi(open_transport(user_agent="onprem-kube-tests", kubeconfig=str(kubeconfig)))
        api.get(NODES, "", NODE)  # the connection is made
        line.hold()

        def lose() -> None:
            wait_until(lambda: taints(cluster) == [OURS])
            line.held.wait(10)
            line.cut()

        threading.Thread(target=lose, daemon=True).start()
        with pytest.raises(PatchTestError) as caught:
            api.json_patch(NODES, "", NODE, put(None, [OURS]))
    assert caught.value.repeated and taints(cluster) == [OURS]


def make_pod(cluster: Cluster, namespace: str, *, grace_s: int) -> tuple[str, str]:
    name = f"pod-{next(_NUMBERS)}"
    spec = {"nodeName": "worker-3", "terminationGracePeriodSeconds": grace_s, "containers": [{"name": "main", "image": IMAGE}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    wait_until(lambda: cluster.get(path)["status"]["phase"] == "Running", what=f"{name} to run")
    return name, cluster.get(path)["metadata"]["uid"]


@pytest.mark.parametrize(("asked_s", "expected_s"), [(2, 2), (None, 60)])
def test_an_eviction_gives_the_grace_that_was_asked_for(
    cluster: Cluster, api: KubeApi, namespace: str, asked_s: int | None, expected_s: int
) -> None:
    name, uid = make_pod(cluster, namespace, grace_s=60)
    api.evict(namespace, name, uid=uid, grace_period_s=asked_s, dry_run=True)
    assert api.get(PODS, namespace, name).metadata.deletion_timestamp is None
    before_s = api.now_s()
    api.evict(namespace, name, uid=uid, grace_period_s=asked_s)
    metadata = api.get(PODS, namespace, name).metadata
    assert metadata.deletion_grace_period_seconds == expected_s
    # The server's times have whole seconds.
    assert before_s - 1 <= parse_time(metadata.deletion_timestamp) - expected_s <= api.now_s() + 1


def test_a_budget_counts_whatever_the_grace_period(cluster: Cluster, api: KubeApi, namespace: str) -> None:
    web = deployment(namespace, "kept", 1)
    cluster.apply([web, budget(namespace, "kept", "kept", minAvailable=1)])
    wait_rolled_out(cluster, web)
    wait_until(lambda: cluster.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/kept")["status"]["currentHealthy"] == 1)
    (pod,) = api.list_all(PODS, namespace=namespace, label_selector="app=kept")
    for grace_s in (0, 1):
        with pytest.raises(BudgetError):
            api.evict(namespace, pod.metadata.name, uid=pod.metadata.uid, grace_period_s=grace_s)


def test_events_are_found_on_any_object(cluster: Cluster, api: KubeApi, namespace: str) -> None:
    web = deployment(namespace, "told", 1)
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    (pod,) = api.list_all(PODS, namespace=namespace, label_selector="app=told")
    node = api.get(NODES, "", pod.spec.node_name)
    on: list[tuple[ObjectReference, str]] = [
        (pod_reference(pod), namespace),
        (workload_reference(api.get(WORKLOADS["Deployment"], namespace, "told")), namespace),
        (node_reference(node), "default"),
    ]
    now = format_time(api.now_s())
    for involved, place in on:
        event = make_event(involved, reason="ToldByTest", message=f"about {involved.kind}", time=now, warning=True)
        assert event["metadata"]["namespace"] == place
        api.create_event(place, event)
        (found,) = api.events_on(place, involved.uid, reason="ToldByTest")
        assert (found.message, found.type, found.last_seen) == (f"about {involved.kind}", "Warning", now)
        assert api.events_on(place, involved.uid, reason="Other") == []
    for kind, name in (("pod", pod.metadata.name), ("node", node.name), ("deployment", "told")):
        said = cluster.kubectl("describe", kind, name, *(("-n", namespace) if kind != "node" else ()))
        assert f"about {kind}" in said.lower(), f"kubectl describe {kind}"


def test_why_the_scheduler_finds_no_node_is_found(cluster: Cluster, api: KubeApi, namespace: str) -> None:
    resources = {"requests": {"cpu": "100"}}
    spec = {"containers": [{"name": "main", "image": IMAGE, "resources": resources}]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "huge", "namespace": namespace}, "spec": spec})
    pod = api.get(PODS, namespace, "huge")
    wait_until(lambda: api.events_on(namespace, pod.metadata.uid, reason="FailedScheduling"))
    event, *_later = api.events_on(namespace, pod.metadata.uid, reason="FailedScheduling")
    assert "Insufficient cpu" in event.message and event.reporting_component == "default-scheduler"
    assert abs(parse_time(event.last_seen) - api.now_s()) < 30


def test_the_servers_clock_continues_between_its_answers(api: KubeApi) -> None:
    api.get(NODES, "", NODE)
    began_s = time.monotonic()
    before = api.now_s()
    read_s = time.monotonic()
    time.sleep(2.2)
    shortest_s = time.monotonic() - read_s
    passed = api.now_s() - before
    assert shortest_s - 0.01 <= passed <= time.monotonic() - began_s + 0.01
    asked_s = time.time()
    api.get(NODES, "", NODE)
    assert api.now_s() >= before + passed, "an answer, whose time is cut to seconds, does not set it back"
    assert asked_s - 1 <= api.now_s() <= time.time() + 1
