# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surplus pods evicted one by one on a real control plane: which, how many at a time, and what ends it."""

from __future__ import annotations

import contextlib
import http.client
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lab.audit import AuditEvent
from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import EVICTIONS, Review, admission_webhook, configuration
from tests.integration.modules.module_process import Modules, result_of
from tests.integration.workloads import (
    OUTCOME,
    budget,
    deployment,
    filler,
    identity,
    known_outcome,
    lay_out,
    only_node,
    outcome,
    pile_up,
    pod_uids,
    pods_of,
    restarted_at,
    stateful_set,
    wait_rolled_out,
    wait_until,
    workers,
)

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
AGENT = "onprem.kube_scheduling/k8s_rollout_restart"


def slow(manifest: dict[str, Any], seconds: int = 1) -> dict[str, Any]:
    """Its pods become ready so late that two of them could be seen away at a time."""
    manifest["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready-delay": str(seconds)}
    return manifest


def evict(modules: Modules, manifest: dict[str, Any], **params: Any) -> dict[str, Any]:
    """The only line of a run over one listed workload."""
    done = modules.restart(**{"workloads": [identity(manifest)], "strategy": "evict_surplus", **params})
    line: dict[str, Any] = done["workloads"][0]
    return line


def code(line: dict[str, Any]) -> str:
    reason: str = line["reason"]
    return reason


def evictions(cluster: Cluster, mark: int, namespace: str, *, dry_run: bool = False) -> list[AuditEvent]:
    """The requests for the Eviction subresource, with and without dry run."""
    events = cluster.audit().events(since=mark, verb="create", resource="pods", user_agent=AGENT)
    asked = [event for event in events if event.subresource == "eviction" and event.namespace == namespace]
    return [event for event in asked if event.path.endswith("?dryRun=All") is dry_run]


@contextlib.contextmanager
def fewest_ready(cluster: Cluster, manifest: dict[str, Any]) -> Iterator[list[int]]:
    """See every change of the workload's pods; the list holds the fewest that were ready at a time at the end."""
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods"
    begin = cluster.get(path)
    ready = {pod["metadata"]["uid"]: _is_ready(pod) for pod in begin["items"] if _app(pod) == name}
    seen = [sum(ready.values())]

    def watch() -> None:
        for event in cluster.api.watch(f"{path}?resourceVersion={begin['metadata']['resourceVersion']}&timeoutSeconds=900"):
            pod = event["object"]
            if _app(pod) == LAST:
                return
            if _app(pod) == name:
                ready[pod["metadata"]["uid"]] = event["type"] != "DELETED" and _is_ready(pod)
                seen[:] = [min(seen[0], sum(ready.values()))]

    with ThreadPoolExecutor(max_workers=1) as pool:
        watching = pool.submit(watch)
        try:
            yield seen
        finally:
            # All that came before this pod has been seen when it is seen. No scheduler binds it.
            spec = {**filler(namespace, "none")["spec"], "schedulerName": "none"}
            del spec["nodeName"]
            cluster.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": LAST, "namespace": namespace, "labels": {"app": LAST}},
                    "spec": spec,
                }
            )
        watching.result()


LAST = "last"


def _app(pod: dict[str, Any]) -> str:
    app: str = pod["metadata"].get("labels", {}).get("app", "")
    return app


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_a_skewed_deployment_is_evened_out_one_pod_at_a_time(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow(deployment(namespace, "web"))
    lay_out(cluster, web, 4, 1, 1)
    old, mark = pod_uids(cluster, web), cluster.audit().mark()
    with fewest_ready(cluster, web) as fewest:
        line = evict(modules, web)
    assert (line["action"], line["outcome"], code(line)) == ("evicted", "improved", "surplus"), line
    assert list(line["before"][HOST].values()) == [4, 1, 1, 0, 0, 0]
    assert set(line["after"][HOST].values()) == {1}
    assert len(pod_uids(cluster, web) & old) == 3, "only the pods above the fair share were evicted"
    assert [event.code for event in evictions(cluster, mark, namespace)] == [201] * 3
    assert {entry["node"] for entry in line["evicted"]} == {workers(cluster)[0]}
    assert all(entry["replacement"] and entry["replacement_node"] != entry["node"] for entry in line["evicted"])
    assert fewest == [5]
    assert restarted_at(cluster, web) is None
    assert (outcome(cluster, web) or {})["attempts"] == 0
    again = evict(modules, web, cooldown=0)
    assert (again["action"], code(again), again["outcome"]) == ("skipped", "spread", "")


def test_several_at_a_time_each_with_one_pod_away(cluster: Cluster, modules: Modules, namespace: str) -> None:
    webs = [slow(deployment(namespace, f"web-{index}", 3)) for index in range(3)]
    pile_up(cluster, *webs)
    with fewest_ready(cluster, webs[0]) as fewest:
        done = modules.restart(workloads=[identity(web) for web in webs], strategy="evict_surplus", max_parallel=2)
    assert [(w["name"], w["outcome"], len(w["evicted"])) for w in done["workloads"]] == [(f"web-{i}", "improved", 2) for i in range(3)]
    assert fewest == [2]


def test_max_skew_says_what_is_enough(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web")
    lay_out(cluster, web, 4, 1, 1, 1, 1, 1)
    line = evict(modules, web, max_skew=2)
    assert (line["outcome"], code(line), len(line["evicted"])) == ("improved", "skewed", 1)
    assert code(evict(modules, web, max_skew=2, cooldown=0)) == "spread"


def test_over_zones_and_then_over_nodes_within_them(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web")
    lay_out(cluster, web, 3, 0, 1)  # the first and the third worker are both in zone-a
    line = evict(modules, web, topology_keys=[ZONE, HOST])
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert line["before"][ZONE] == {"zone-a": 4, "zone-b": 0} and line["after"][ZONE] == {"zone-a": 2, "zone-b": 2}
    assert max(line["after"][HOST].values()) == 1


def test_over_zones_alone(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web")
    lay_out(cluster, web, 2, 0, 2)
    line = evict(modules, web, topology_keys=[ZONE])
    assert (line["outcome"], line["after"], len(line["evicted"])) == ("improved", {ZONE: {"zone-a": 2, "zone-b": 2}}, 2)


def test_a_stateful_set_gives_its_highest_ordinals_away(cluster: Cluster, modules: Modules, namespace: str) -> None:
    db = slow(stateful_set(namespace, "db", 3))
    pile_up(cluster, db)
    cluster.kubectl(
        "patch", "statefulset/db", "-n", namespace, "-p", '{"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}'
    )
    with fewest_ready(cluster, db) as fewest:
        line = evict(modules, db)
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert [entry["pod"] for entry in line["evicted"]] == [entry["replacement"] for entry in line["evicted"]] == ["db-2", "db-1"]
    assert Counter(line["after"][HOST].values()) == {1: 3, 0: 3} and fewest == [2]
    cluster.kubectl("set", "image", "statefulset/db", "-n", namespace, "main=registry.k8s.io/pause:3.9")
    wait_until(lambda: code(evict(modules, db, cooldown=0)) == "pending_revision")


def test_a_paused_deployment_may_be_evened_out(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    cluster.kubectl("rollout", "pause", "deployment/web", "-n", namespace)
    line = evict(modules, web)
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line


def test_auto_restarts_what_is_collapsed_and_evicts_from_what_is_skewed(cluster: Cluster, modules: Modules, namespace: str) -> None:
    piled, uneven = deployment(namespace, "piled", 3), deployment(namespace, "uneven")
    pile_up(cluster, piled)
    lay_out(cluster, uneven, 3, 1, 1)
    targets = [identity(piled), identity(uneven)]
    done = modules.restart(workloads=targets, strategy="auto", max_skew=1, max_parallel=2)["workloads"]
    found = [(w["action"], w["outcome"], len(w["evicted"])) for w in done]
    assert found == [("restarted", "improved", 0), ("evicted", "improved", 2)], done
    assert restarted_at(cluster, uneven) is None


def test_evictions_after_a_rollback_are_remembered_as_its_own(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home = workers(cluster)[0]
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web, node=home)
    first = evict(modules, web)
    assert first["outcome"] == "improved", first
    cluster.kubectl("set", "image", "deployment/web", "-n", namespace, "main=registry.k8s.io/pause:3.9")
    wait_rolled_out(cluster, web)
    with only_node(cluster, home):
        cluster.kubectl("rollout", "undo", "deployment/web", "-n", namespace)
        wait_rolled_out(cluster, web)
    brought_back = known_outcome(cluster, web)
    second = evict(modules, web, max_attempts=1)
    assert (second["action"], second["outcome"], len(second["evicted"])) == ("evicted", "improved", 2), second
    written = known_outcome(cluster, web)
    assert (brought_back["number"], written["number"], written["revision"]) == (1, 3, brought_back["revision"])
    assert code(evict(modules, web, only_if_helps=False, strategy="rollout")) == "cooldown"


def test_check_mode_asks_the_server_and_evicts_nothing(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web)
    before, mark = pod_uids(cluster, web), cluster.audit().mark()
    plan = modules.restart(workloads=[identity(web)], strategy="evict_surplus", check_mode=True)
    line = plan["workloads"][0]
    assert plan["changed"] is True and line["action"] == "would_evict"
    assert len(line["evicted"]) == 2 and len({entry["replacement_node"] for entry in line["evicted"]} - {workers(cluster)[0]}) == 2
    assert len(evictions(cluster, mark, namespace, dry_run=True)) == 1 and not evictions(cluster, mark, namespace)
    assert pod_uids(cluster, web) == before and outcome(cluster, web) is None
    cluster.apply(budget(namespace, "keep", "web", minAvailable=3))
    wait_until(lambda: code(evict(modules, web, check_mode=True)) == "budget")


# --- budgets ----------------------------------------------------------------------------------------------------------


def patches(cluster: Cluster, mark: int, namespace: str) -> list[AuditEvent]:
    """The writes of the modules to the namespace's workloads."""
    events = cluster.audit().events(since=mark, verb="patch", user_agent=AGENT)
    return [event for event in events if event.namespace == namespace]


@pytest.mark.parametrize("count", [1, 3])
def test_a_budget_that_allows_no_eviction_is_refused_before_anything_is_written(
    cluster: Cluster, modules: Modules, namespace: str, count: int
) -> None:
    webs = [deployment(namespace, f"web-{number}", 3) for number in range(count)]
    pile_up(cluster, *webs, *(budget(namespace, web["metadata"]["name"], web["metadata"]["name"], minAvailable=3) for web in webs))
    wait_until(lambda: healthy(cluster, namespace) == [3] * count, what="the budgets' status")
    mark = cluster.audit().mark()
    done = modules.restart(workloads=[identity(web) for web in webs], strategy="evict_surplus", wait_timeout=300)["workloads"]
    assert [(line["action"], line["outcome"], code(line)) for line in done] == [("refused", "", "budget")] * count, done
    assert f"PodDisruptionBudget {namespace}/web-0" in done[0]["message"] and "it requires 3 healthy pods" in done[0]["message"]
    assert not evictions(cluster, mark, namespace) and not evictions(cluster, mark, namespace, dry_run=True)
    assert not patches(cluster, mark, namespace) and all(outcome(cluster, web) is None for web in webs)


def healthy(cluster: Cluster, namespace: str) -> list[int]:
    items = cluster.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")["items"]
    return [item.get("status", {}).get("currentHealthy", 0) for item in items]


def hold_one(cluster: Cluster, manifest: dict[str, Any], *, ready: bool) -> None:
    """Let one of the pods lose its readiness, or become ready again."""
    name = sorted(pod["metadata"]["name"] for pod in pods_of(cluster, manifest))[0]
    annotation = "lab.onprem/ready-" if ready else "lab.onprem/ready=false"
    cluster.kubectl("annotate", "pod", name, annotation, "-n", manifest["metadata"]["namespace"])


def test_budgets_that_open_soon_are_waited_for_once_in_a_run_and_nothing_is_written(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    """The budget is also that of another workload, one pod of which is not ready."""
    webs, other = [deployment(namespace, f"web-{number}", 2) for number in range(3)], deployment(namespace, "other", 1)
    pile_up(cluster, *webs, other, {**budget(namespace, "keep", "x"), "spec": {"selector": {}, "minAvailable": 6}})
    hold_one(cluster, other, ready=False)
    wait_until(lambda: healthy(cluster, namespace) == [6], what="the budget's status")
    mark = cluster.audit().mark()
    done = modules.restart(workloads=[identity(web) for web in webs], strategy="evict_surplus", wait_timeout=8)["workloads"]
    assert [(line["action"], code(line)) for line in done] == [("refused", "budget")] * 3, done
    assert "6 of 7 pods are healthy" in done[0]["message"]
    # Pauses of 1, 2, 4 and 1 seconds, with a check of the budget after each of them; and the decisions of two observations.
    assert 4 <= len(reads_of_budgets(cluster, mark)) <= 6, "once, not for each workload"
    assert not evictions(cluster, mark, namespace) and not patches(cluster, mark, namespace)


def test_a_budget_that_opens_meanwhile_lets_the_run_continue(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web, free, other = deployment(namespace, "web", 2), deployment(namespace, "free", 2), deployment(namespace, "other", 1)
    keep = {**budget(namespace, "keep", "x"), "spec": {"selector": {"matchExpressions": [NOT_FREE]}, "minAvailable": 2}}
    pile_up(cluster, web, free, other, keep)
    hold_one(cluster, other, ready=False)
    wait_until(lambda: healthy(cluster, namespace) == [2], what="the budget's status")
    mark = cluster.audit().mark()
    targets = [identity(web), identity(free)]
    process = modules.start("k8s_rollout_restart", workloads=targets, strategy="evict_surplus", wait_timeout=100)
    wait_until(lambda: outcome(cluster, free) is not None and known_outcome(cluster, free)["outcome"] == "improved", what="the other work")
    assert outcome(cluster, web) is None, "nothing is written while the budget is waited for"
    hold_one(cluster, other, ready=True)
    lines = result_of(process)["workloads"]
    assert [(line["action"], line["outcome"], len(line["evicted"])) for line in lines] == [("evicted", "improved", 1)] * 2, lines
    assert [event.code for event in evictions(cluster, mark, namespace)] == [201, 201]


NOT_FREE = {"key": "app", "operator": "NotIn", "values": ["free"]}


def test_a_budget_that_is_still_being_processed_is_waited_for(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, budget(namespace, "keep", "web", minAvailable=1))
    wait_until(lambda: healthy(cluster, namespace) == [2], what="the budget's status")
    cluster.pause("kube-controller-manager")
    try:
        cluster.kubectl("patch", "pdb/keep", "-n", namespace, "--type=merge", "-p", '{"spec": {"minAvailable": 0}}')
        mark = cluster.audit().mark()
        process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus")
        wait_until(lambda: len(reads_of_budgets(cluster, mark)) > 2, what="the wait for the budget")
        assert not patches(cluster, mark, namespace)
    finally:
        cluster.resume("kube-controller-manager")
    line = result_of(process)["workloads"][0]
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert [event.code for event in evictions(cluster, mark, namespace)] == [201]


def reads_of_budgets(cluster: Cluster, mark: int) -> list[AuditEvent]:
    return list(cluster.audit().events(since=mark, verb="list", resource="poddisruptionbudgets", user_agent=AGENT))


def test_two_budgets_on_one_pod_are_refused_by_their_names(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, budget(namespace, "first", "web", minAvailable=1), budget(namespace, "second", "web", minAvailable=1))
    before, mark = pod_uids(cluster, web), cluster.audit().mark()
    line = evict(modules, web)
    assert (line["action"], line["outcome"], code(line)) == ("refused", "", "several_budgets"), line
    assert "first and second" in line["message"]
    assert not evictions(cluster, mark, namespace) and not patches(cluster, mark, namespace)
    assert pod_uids(cluster, web) == before


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_eviction_that_a_webhook_denies_is_refused_in_its_words_and_nothing_is_written(
    cluster: Cluster, modules: Modules, namespace: str, check_mode: bool
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    before, mark = pod_uids(cluster, web), cluster.audit().mark()

    def keep(review: Review) -> str | None:
        return "migrations are in progress" if review.get("subResource") == "eviction" else None

    with admission_webhook(cluster, "keep", namespace, keep):
        done = modules.restart(workloads=[identity(web)], strategy="evict_surplus", check_mode=check_mode)
    line = done["workloads"][0]
    assert (line["action"], line["outcome"], code(line)) == ("refused", "", "denied"), line
    assert "migrations are in progress" in line["message"] and "Grant" not in line["message"]
    assert not done.get("failed") and not done["changed"]
    assert not patches(cluster, mark, namespace) and pod_uids(cluster, web) == before


NOBODY = "https://127.0.0.1:1/"


def unavailable_webhook(name: str, namespace: str) -> dict[str, Any]:
    """A webhook for evictions that has no server."""
    return configuration(name, namespace, {"url": NOBODY}, EVICTIONS)


@pytest.fixture
def webhook_down(cluster: Cluster, namespace: str) -> Iterator[Callable[[], None]]:
    """No eviction in the namespace is admitted, because the webhook for it has no server; call it to remove the webhook."""
    name = f"down-{namespace}"
    cluster.apply(unavailable_webhook(name, namespace))

    def remove() -> None:
        cluster.kubectl("delete", "validatingwebhookconfiguration", name, "--ignore-not-found")

    yield remove
    remove()


def wait_until_no_eviction_is_admitted(cluster: Cluster, manifest: dict[str, Any]) -> None:
    """The API server needs a moment to learn of a webhook."""
    metadata = pods_of(cluster, manifest)[0]["metadata"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction?dryRun=All"
    wait_until(
        lambda: cluster.api.request("POST", path, body).status == http.client.INTERNAL_SERVER_ERROR, what="the effect of the webhook"
    )


def test_an_unavailable_webhook_is_waited_for_once_in_a_run_and_nothing_is_written(
    cluster: Cluster, modules: Modules, namespace: str, webhook_down: Callable[[], None]
) -> None:
    webs = [deployment(namespace, f"web-{number}", 2) for number in range(3)]
    pile_up(cluster, *webs)
    wait_until_no_eviction_is_admitted(cluster, webs[0])
    mark = cluster.audit().mark()
    done = modules.restart(workloads=[identity(web) for web in webs], strategy="evict_surplus", wait_timeout=10)
    ends = [(line["action"], line["outcome"], code(line)) for line in done["workloads"]]
    assert done["failed"] and not done["changed"] and ends == [("failed", "", "error")] * 3, done
    assert all(f'failed calling webhook "down-{namespace}.tests.onprem.example"' in line["message"] for line in done["workloads"])
    assert not evictions(cluster, mark, namespace) and not patches(cluster, mark, namespace)
    # Pauses of 1, 2, 4 and 3 seconds, and one request for each workload before each of them and at the end.
    assert len(evictions(cluster, mark, namespace, dry_run=True)) == 5 * 3, "one wait for all of them"
    assert all(outcome(cluster, web) is None for web in webs)


def test_a_webhook_that_is_available_again_lets_the_run_continue(
    cluster: Cluster, modules: Modules, namespace: str, webhook_down: Callable[[], None]
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    wait_until_no_eviction_is_admitted(cluster, web)
    mark = cluster.audit().mark()
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus", wait_timeout=100)
    wait_until(lambda: len(evictions(cluster, mark, namespace, dry_run=True)) > 1, what="the wait for the webhook")
    assert not patches(cluster, mark, namespace)
    webhook_down()
    line = result_of(process)["workloads"][0]
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert [event.code for event in evictions(cluster, mark, namespace)] == [201]


@pytest.mark.parametrize("strategy", ["evict_surplus", "rollout"])
def test_check_mode_says_that_a_webhook_without_dry_runs_cannot_be_asked(
    cluster: Cluster, modules: Modules, namespace: str, strategy: str
) -> None:
    """API servers up to 1.21 stored such webhooks (``admissionregistration.k8s.io/v1beta1``); newer ones still honor them."""
    web, name = deployment(namespace, "web", 2), f"effects-{namespace}"
    pile_up(cluster, web)
    webhook = unavailable_webhook(name, namespace)
    webhook["webhooks"][0]["sideEffects"] = "Some"
    webhook["webhooks"][0]["rules"].append(
        {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments"]}
    )
    cluster.bulk_load([webhook])
    try:
        wait_until(
            lambda: (
                "does not support dry run"
                in modules.restart(**identity(web), strategy=strategy, check_mode=True)["workloads"][0]["message"]
            ),
            what="the effect of the webhook",
        )
        done = modules.restart(**identity(web), strategy=strategy, check_mode=True)
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", name)
    line = done["workloads"][0]
    assert not done["failed"] and not done["changed"], done
    assert (line["action"], code(line)) == ("skipped", "dry_run_unsupported"), line
    assert "cannot be tried in check mode" in line["message"] and f"{name}.tests.onprem.example" in line["message"]


# --- without effect ---------------------------------------------------------------------------------------------------


def test_without_free_capacity_elsewhere_nothing_is_evicted(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, *others = workers(cluster)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    cluster.apply([filler(namespace, node) for node in others])
    before = pod_uids(cluster, web)
    line = evict(modules, web)
    assert (line["action"], code(line)) == ("skipped", "no_capacity") and "Insufficient cpu (5 nodes)" in line["message"], line
    assert pod_uids(cluster, web) == before and outcome(cluster, web) is None


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({"kind": "ResourceQuota", "spec": {"hard": {"limits.cpu": "100"}}}, "required_resources"),
        ({"kind": "LimitRange", "spec": {"limits": [{"type": "Container", "max": {"cpu": "50m"}}]}}, "limit_range"),
        ({"kind": "ResourceQuota", "spec": {"hard": {"pods": "1"}}}, "quota"),
    ],
    ids=["a quota over limits that the pods lack", "a limit range below what the pods ask for", "an overdrawn quota"],
)
@pytest.mark.parametrize("strategy", ["evict_surplus", "rollout"])
def test_a_namespace_that_admits_no_new_pod_loses_none(
    cluster: Cluster, modules: Modules, namespace: str, bound: dict[str, Any], expected: str, strategy: str
) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    cluster.apply({"apiVersion": "v1", "metadata": {"name": "bound", "namespace": namespace}, **bound})
    pod = {**web["spec"]["template"], "metadata": {"name": "probe", "labels": {}}}
    wait_until(lambda: _is_refused(cluster, namespace, pod), what="admission to turn such pods down")
    before = pod_uids(cluster, web)
    line = evict(modules, web, strategy=strategy, only_if_helps=False)
    assert (line["action"], code(line)) == ("refused", expected), line
    assert pod_uids(cluster, web) == before


def _is_refused(cluster: Cluster, namespace: str, pod: dict[str, Any]) -> bool:
    status = cluster.api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod).status
    return status in (http.client.FORBIDDEN, http.client.UNPROCESSABLE_ENTITY)


def test_of_two_workloads_only_one_is_evicted_from_into_the_last_place(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, last, *others = workers(cluster)
    webs = [deployment(namespace, name, 2, cpu="1500m") for name in ("web-a", "web-b")]
    pile_up(cluster, *webs, node=home)
    cluster.apply([filler(namespace, last, cpu="6"), *(filler(namespace, node) for node in others)])
    mark = cluster.audit().mark()
    targets = [identity(web) for web in webs]
    first, second = modules.restart(workloads=targets, strategy="evict_surplus", max_parallel=2)["workloads"]
    assert (first["action"], first["outcome"]) == ("evicted", "improved"), first
    assert (second["action"], code(second)) == ("skipped", "no_capacity"), second
    assert len(evictions(cluster, mark, namespace)) == 1
    assert outcome(cluster, webs[1]) is None, "no attempt is counted where none was made"


def test_another_image_in_the_meantime_ends_the_wait(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow(deployment(namespace, "web", 2), seconds=10)
    pile_up(cluster, web)
    mark = cluster.audit().mark()
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus", wait_timeout=200)
    wait_until(lambda: bool(evictions(cluster, mark, namespace)), what="the eviction")
    cluster.kubectl("set", "image", "deployment/web", "*=elsewhere:2", "-n", namespace)
    done = result_of(process)
    (line,) = done["workloads"]
    assert done["failed"] and code(line) == "replacement_not_ready" and "was changed by another client" in line["message"], line


def test_a_replacement_that_comes_back_ends_the_attempt(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, *others = workers(cluster)
    web = deployment(namespace, "web", 3)
    pile_up(cluster, web, node=home)

    def close_the_others(review: Review) -> None:
        if OUTCOME in ((review["object"] or {}).get("metadata", {}).get("annotations") or {}):
            cluster.cordon(*others)

    mark = cluster.audit().mark()
    try:
        with admission_webhook(cluster, "close", namespace, close_the_others):
            line = evict(modules, web)
    finally:
        cluster.uncordon(*others)
    assert (line["action"], line["outcome"]) == ("evicted", "unchanged"), line
    assert "the replacement of " in line["message"] and home in line["message"]
    assert len(evictions(cluster, mark, namespace)) == 1
    assert (outcome(cluster, web) or {})["attempts"] == 1
    assert code(evict(modules, web)) == "cooldown"
    assert evict(modules, web, cooldown=0)["outcome"] == "improved"


# --- interruptions ----------------------------------------------------------------------------------------------------


def test_killed_after_an_eviction_the_next_run_continues(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow(deployment(namespace, "web", 3), 8)  # the process is killed before the replacement is ready, also on a slow machine
    pile_up(cluster, web)
    mark = cluster.audit().mark()
    process = modules.start("k8s_rollout_restart", workloads=[identity(web)], strategy="evict_surplus")
    wait_until(lambda: bool(evictions(cluster, mark, namespace)), what="the first eviction")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert ((outcome(cluster, web) or {})["outcome"], (outcome(cluster, web) or {})["attempts"]) == ("pending", 1)
    with fewest_ready(cluster, web) as fewest:
        line = evict(modules, web)
    assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    assert fewest == [2]
    assert [event.code for event in evictions(cluster, mark, namespace)] == [201, 201], "none was evicted twice for one need"
    assert ((outcome(cluster, web) or {})["outcome"], (outcome(cluster, web) or {})["attempts"]) == ("improved", 0)


def test_killed_after_the_last_eviction_the_next_run_only_settles(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow(deployment(namespace, "web", 2), 2)
    pile_up(cluster, web)
    mark = cluster.audit().mark()
    first = evict(modules, web, wait=False)
    assert (first["action"], first["outcome"], len(first["evicted"])) == ("evicted", "pending", 1), first
    line = evict(modules, web)
    assert (line["action"], line["outcome"]) == ("skipped", "improved"), line
    assert len(evictions(cluster, mark, namespace)) == 1
    assert (outcome(cluster, web) or {})["outcome"] == "improved"


def test_two_runs_at_the_same_time_never_have_two_pods_away(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = slow(deployment(namespace, "web", 4))
    pile_up(cluster, web)
    mark = cluster.audit().mark()
    with fewest_ready(cluster, web) as fewest:
        params: dict[str, Any] = {"workloads": [identity(web)], "strategy": "evict_surplus", "max_attempts": 9}
        both = [modules.start("k8s_rollout_restart", **params) for _number in range(2)]
        results = [result_of(process) for process in both]
    assert fewest == [3], results
    assert len(evictions(cluster, mark, namespace)) == 3, results
    nodes = [pod["spec"]["nodeName"] for pod in pods_of(cluster, web)]
    assert len(set(nodes)) == 4


@pytest.mark.parametrize("may_evict", [True, False])
def test_credentials_that_may_not_watch_or_not_evict(cluster: Cluster, modules: Modules, namespace: str, may_evict: bool) -> None:
    name = f"evictor-{namespace}"
    rules = [
        {"apiGroups": ["", "apps", "policy", "autoscaling"], "resources": ["*"], "verbs": ["get", "list"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["patch"]},
        *([{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}] if may_evict else []),
    ]
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    kubeconfig = cluster.service_account(name, namespace=namespace, cluster_role=None)
    cluster.apply([
        {**api, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {**api, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]},
    ])  # fmt: skip
    web = slow(deployment(namespace, "web", 2))
    pile_up(cluster, web)
    line = evict(Modules(kubeconfig), web, wait_sleep=1)
    if may_evict:
        assert (line["action"], line["outcome"]) == ("evicted", "improved"), line
    else:
        assert (line["action"], line["outcome"], code(line)) == ("failed", "", "error"), line
        assert "Grant the verb 'create' on pods/eviction" in line["message"]
        assert outcome(cluster, web) is None, "with the right granted the next run may begin immediately"
