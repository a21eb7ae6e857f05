# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restarts on a real control plane: the writes, the results, and the decision of the next run."""

from __future__ import annotations

import re

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import (
    RESTARTED_AT,
    budget,
    deployment,
    filler,
    identity,
    known_outcome,
    outcome,
    pile_up,
    pod_uids,
    read,
    restarted_at,
    stateful_set,
    wait_rolled_out,
    wait_until,
    workers,
)

HOST = "kubernetes.io/hostname"


def test_piled_up_replicas_are_found_restarted_and_spread(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 3)
    db = stateful_set(namespace, "db", 2)
    pile_up(cluster, web, db)
    found = modules.check(namespace)
    assert found["restartable"] == [identity(web), identity(db)], found
    assert found["changed"] is False

    done = modules.restart(workloads=found["restartable"])
    assert [(w["name"], w["action"], w["outcome"]) for w in done["workloads"]] == [
        ("web", "restarted", "improved"),
        ("db", "restarted", "improved"),
    ]
    assert done["changed"] is True
    assert list(done["workloads"][0]["before"][HOST].values()).count(3) == 1
    assert sorted(done["workloads"][0]["after"][HOST].values()) == [0, 0, 0, 1, 1, 1]

    again = modules.check(namespace)
    assert again["summary"]["healthy"] == 2 and again["restartable"] == []


def test_the_patch_is_one_and_writes_the_restart_and_the_outcome_only(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    before = read(cluster, web)
    audit = cluster.audit()
    mark = audit.mark()
    modules.restart(workloads=[identity(web)], wait=False)
    after = read(cluster, web)
    patches = list(audit.events(since=mark, user_agent="onprem.kube_scheduling/k8s_rollout_restart", verb="patch"))
    assert len(patches) == 1
    template = dict(after["spec"]["template"]["metadata"])
    stamp = template.pop("annotations")
    assert list(stamp) == [RESTARTED_AT]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp[RESTARTED_AT])
    assert {**before["spec"]["template"]["metadata"], "annotations": stamp} == after["spec"]["template"]["metadata"]
    assert before["spec"]["template"]["spec"] == after["spec"]["template"]["spec"]
    remembered = outcome(cluster, web)
    assert remembered is not None
    assert set(remembered) == {"time", "attempts", "outcome", "revision", "eligible", "number", "write_id", "basis", "lowest_cost"}
    assert (remembered["outcome"], remembered["attempts"], remembered["time"]) == ("pending", 1, stamp[RESTARTED_AT])


def test_other_annotations_of_the_template_survive(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    web["spec"]["template"]["metadata"]["annotations"] = {"team": "shop", RESTARTED_AT: "2020-01-01T00:00:00+02:00"}
    pile_up(cluster, web)
    modules.restart(workloads=[identity(web)])
    annotations = read(cluster, web)["spec"]["template"]["metadata"]["annotations"]
    assert annotations["team"] == "shop" and annotations[RESTARTED_AT] != "2020-01-01T00:00:00+02:00"


def test_the_outcome_is_remembered_and_the_next_run_keeps_the_cooldown(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    modules.restart(workloads=[identity(web)])
    remembered = outcome(cluster, web)
    revisions = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    newest = max(revisions, key=lambda rs: int(rs["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))
    assert remembered is not None
    assert (remembered["outcome"], remembered["attempts"]) == ("improved", 0)
    assert remembered["revision"] == newest["metadata"]["labels"]["pod-template-hash"]
    pods = pod_uids(cluster, web)
    refused = modules.restart(**identity(web), cooldown="10m")
    assert refused["failed"] and refused["workloads"][0]["action"] == "refused"
    assert refused["workloads"][0]["message"].startswith("cooldown since ")
    assert pod_uids(cluster, web) == pods


def test_a_restart_without_effect_is_remembered_as_unchanged_and_backs_off(cluster: Cluster, modules: Modules, namespace: str) -> None:
    home, *others = workers(cluster)
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web, node=home)
    cluster.apply([filler(namespace, node) for node in others])
    first = modules.restart(**identity(web), only_if_helps=False)["workloads"][0]
    assert (first["action"], first["outcome"]) == ("restarted", "unchanged")
    assert known_outcome(cluster, web)["attempts"] == 1
    second = modules.restart(**identity(web), cooldown=0)["workloads"][0]
    assert second["outcome"] == "unchanged", second["message"]
    assert known_outcome(cluster, web)["attempts"] == 2
    third = modules.restart(**identity(web), cooldown=0, max_attempts=2)["workloads"][0]
    assert third["action"] == "refused" and third["reason"] == "attempts_used_up" and third["message"].startswith("2")
    # Other eligible nodes: the attempts start again.
    cluster.kubectl("delete", "pods", "-n", namespace, "-l", "app=filler", "--grace-period=0", "--force")
    cluster.cordon(others[-1])
    try:
        fourth = modules.restart(**identity(web), cooldown=0, max_attempts=2)["workloads"][0]
    finally:
        cluster.uncordon(others[-1])
    assert (fourth["action"], fourth["outcome"]) == ("restarted", "improved"), fourth["message"]


def test_old_outcomes_that_rollout_undo_restores_do_not_count(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    modules.restart(**identity(web))
    cluster.kubectl("set", "env", "deployment/web", "-n", namespace, "A=B")
    wait_rolled_out(cluster, web)
    cluster.kubectl("rollout", "undo", "deployment/web", "-n", namespace)
    wait_rolled_out(cluster, web)
    assert outcome(cluster, web) is not None
    assert modules.restart(**identity(web))["workloads"][0]["action"] == "restarted"


def test_check_mode_asks_the_server_and_changes_nothing(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    before = read(cluster, web)
    planned = modules.restart(workloads=[identity(web)], check_mode=True)
    assert planned["changed"] is True and planned["workloads"][0]["action"] == "would_restart"
    after = read(cluster, web)
    assert (before["spec"], before["metadata"]["resourceVersion"]) == (after["spec"], after["metadata"]["resourceVersion"])


def test_budgets_that_a_rollout_would_break_are_kept(cluster: Cluster, modules: Modules, namespace: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    web = deployment(namespace, "web", 3, strategy=strategy)
    pile_up(cluster, web, budget(namespace, "keep", "web", minAvailable=3))
    pods = pod_uids(cluster, web)
    refused = modules.restart(**identity(web))
    # This budget would also reject an eviction.
    assert refused["failed"] and "maxUnavailable 0" in refused["workloads"][0]["message"]
    assert refused["workloads"][0]["reason"] == "budget"
    assert modules.check(namespace)["restartable"] == []
    listed = modules.restart(workloads=[identity(web)])
    assert not listed.get("failed") and listed["workloads"][0]["action"] == "refused"
    assert pod_uids(cluster, web) == pods and outcome(cluster, web) is None
    allowed = modules.restart(workloads=[identity(web)], allow_downtime=True)
    assert allowed["workloads"][0]["outcome"] == "improved"


def test_recreate_needs_allow_downtime(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2, strategy={"type": "Recreate"})
    pile_up(cluster, web)
    assert modules.restart(**identity(web))["workloads"][0]["reason"] == "downtime"
    assert modules.restart(**identity(web), allow_downtime=True)["workloads"][0]["outcome"] == "improved"


def test_paused_and_on_delete_are_refused_untouched(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    db = stateful_set(namespace, "db", 2, updateStrategy={"type": "OnDelete"})
    with_pause = {**web, "spec": {**web["spec"], "paused": False}}
    pile_up(cluster, with_pause)
    cluster.apply(db)
    cluster.kubectl("rollout", "pause", "deployment/web", "-n", namespace)
    reasons = [w["reason"] for w in modules.restart(workloads=[identity(web), identity(db)])["workloads"]]
    assert reasons == ["paused", "on_delete"]
    assert restarted_at(cluster, web) is None and restarted_at(cluster, db) is None


def test_a_stateful_set_with_a_partition_restarts_above_it(cluster: Cluster, modules: Modules, namespace: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    db = stateful_set(namespace, "db", 3, updateStrategy=strategy)
    pile_up(cluster, db)
    done = modules.restart(workloads=[identity(db)])["workloads"][0]
    assert (done["action"], done["outcome"]) == ("restarted", "improved"), done
    assert sum(done["after"][HOST].values()) == 3


def test_a_rollout_that_cannot_end_fails_with_its_reason_and_is_remembered(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    web["spec"]["template"]["metadata"]["annotations"] = {"lab.onprem/ready": "true"}
    pile_up(cluster, web)
    # Not before its first rollout has ended, which takes longer on a slow machine.
    cluster.kubectl("patch", "deployment/web", "-n", namespace, "-p", '{"spec": {"progressDeadlineSeconds": 2}}')
    cluster.cordon(*workers(cluster))
    try:
        failed = modules.restart(**identity(web), wait_timeout=200)
    finally:
        cluster.uncordon(*workers(cluster))
    line = failed["workloads"][0]
    assert failed["failed"] and (line["action"], line["outcome"]) == ("failed", "failed")
    assert "progress deadline" in line["message"]
    assert known_outcome(cluster, web)["outcome"] == "failed"


def test_an_event_tells_what_was_done_and_why(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    modules.restart(workloads=[identity(web)])
    events = cluster.get(f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name%3Dweb")["items"]
    messages = {event["reason"]: event["message"] for event in events if event["source"].get("component") == "onprem.kube_scheduling"}
    assert messages["SpreadRestart"].startswith("restarted: all 2 placed replicas in")
    assert messages["SpreadRestartOutcome"].startswith("improved: kubernetes.io/hostname:")


def test_without_the_second_check_the_outcome_stays_pending_until_the_next_run(cluster: Cluster, modules: Modules, namespace: str) -> None:
    web = deployment(namespace, "web", 2)
    pile_up(cluster, web)
    line = modules.restart(workloads=[identity(web)], verify_spread=False)["workloads"][0]
    assert (line["action"], line["outcome"], line["after"]) == ("restarted", "pending", {})
    stamp = restarted_at(cluster, web)
    line = modules.restart(workloads=[identity(web)])["workloads"][0]
    assert (line["action"], line["outcome"]) == ("skipped", "improved") and restarted_at(cluster, web) == stamp


def test_workloads_of_one_budget_are_never_restarted_at_the_same_time(cluster: Cluster, modules: Modules, namespace: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    webs = [deployment(namespace, f"web-{index}", 3, strategy=strategy) for index in range(3)]
    for web in webs:
        web["spec"]["template"]["metadata"]["labels"]["tier"] = "shared"
    keep = budget(namespace, "keep", "none", minAvailable=8)
    keep["spec"]["selector"] = {"matchLabels": {"tier": "shared"}}
    pile_up(cluster, *webs, keep)
    begun = modules.restart(workloads=[identity(web) for web in webs], wait=False, max_parallel=3)["workloads"]
    assert [(w["action"], w["reason"]) for w in begun[1:]] == [("refused", "budget")] * 2
    wait_rolled_out(cluster, webs[0])
    status = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/keep"
    wait_until(lambda: cluster.get(status)["status"]["currentHealthy"] == 9, what="the budget counts the new pods")
    done = modules.restart(workloads=[identity(web) for web in webs], max_parallel=3)["workloads"]
    assert [(w["name"], w["action"], w["outcome"]) for w in done] == [
        ("web-0", "skipped", "improved"),
        ("web-1", "restarted", "improved"),
        ("web-2", "restarted", "improved"),
    ]


@pytest.mark.parametrize("wait", [True, False])
def test_of_two_workloads_only_one_is_restarted_into_the_last_place(cluster: Cluster, modules: Modules, namespace: str, wait: bool) -> None:
    home, last, *others = workers(cluster)
    webs = [deployment(namespace, name, 2, cpu="1500m") for name in ("web-a", "web-b")]
    pile_up(cluster, *webs, node=home)
    full = cluster.apply([filler(namespace, home, cpu="500m"), filler(namespace, last, cpu="6"), *(filler(namespace, n) for n in others)])
    first, second = modules.restart(workloads=[identity(web) for web in webs], max_parallel=2, wait=wait)["workloads"]
    assert (first["action"], first["outcome"]) == ("restarted", "improved" if wait else "pending"), first
    assert (second["action"], second["reason"]) == ("skipped", "no_gain"), (second, full)
    assert outcome(cluster, webs[1]) is None


def test_several_at_a_time(cluster: Cluster, modules: Modules, namespace: str) -> None:
    webs = [deployment(namespace, f"web-{index}", 2) for index in range(4)]
    pile_up(cluster, *webs)
    done = modules.restart(workloads=[identity(web) for web in webs], max_parallel=3)
    assert [w["name"] for w in done["workloads"]] == [f"web-{index}" for index in range(4)]
    assert {w["outcome"] for w in done["workloads"]} == {"improved"}


def test_a_rollout_of_another_client_is_not_taken_for_the_restart_of_a_stateful_set(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    db = stateful_set(namespace, "db", 3, podManagementPolicy="Parallel")
    pile_up(cluster, db)
    done = modules.restart(workloads=[identity(db)], wait=False)
    assert not done.get("warnings"), "the controller has not seen the restart in time"
    revision = read(cluster, db)["status"]["updateRevision"]
    assert (known_outcome(cluster, db)["outcome"], known_outcome(cluster, db)["expected"]) == ("pending", revision)
    wait_rolled_out(cluster, db)
    cluster.kubectl("scale", "statefulset/db", "-n", namespace, "--replicas=4")
    wait_rolled_out(cluster, db)
    planned = modules.restart(**identity(db), cooldown=600, check_mode=True)["workloads"][0]
    assert planned["reason"] == "already_restarted", "a scaled StatefulSet is still the own restart's"
    cluster.kubectl("set", "image", "statefulset/db", "-n", namespace, "main=registry.k8s.io/pause:3.9")
    wait_rolled_out(cluster, db)
    line = modules.restart(**identity(db))["workloads"][0]
    assert line["action"] == "restarted", line
