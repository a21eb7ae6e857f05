# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Restart, resume, skip or refuse; what is written; and kubectl's rules of progress."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import Skipped
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart, restart_patch
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.strategy_choice import choose_strategy
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import rollout_progress
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.support.cluster import ClusterBuilder, struct, workers

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def decision(cluster: ClusterBuilder, **options: t.Any) -> tuple[str, str]:
    snapshot = cluster.snapshot()
    (workload,) = snapshot.workloads()
    line = WorkloadChecker(snapshot, CheckOptions()).check(workload)
    made = decide_restart(line, snapshot, RestartOptions(**options), now_s=NOW)
    return made.action, made.reason.code


def remember(verdict: str, *, revision: str, age_s: int = 60, attempts: int = 1, number: int | None = None) -> dict[str, t.Any]:
    outcome = make_outcome(now_s=NOW - age_s, attempts=attempts, outcome=verdict, revision=revision, eligible="x", number=number)
    return {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}


def test_a_collapsed_workload_with_free_capacity_elsewhere_is_restarted():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    assert decision(cluster) == ("restart", "collapsed")


def test_a_healthy_one_only_if_it_is_asked_for_by_name():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1", "worker-2"])
    assert decision(cluster) == ("skipped", "spread")
    assert decision(cluster, only_if_helps=False) == ("restart", "spread")


def test_a_restart_that_would_not_help_is_refused():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.pod(
        "filler", "worker-2", template={"metadata": {}, "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "4"}}}]}}
    )
    assert decision(cluster) == ("skipped", "no_gain")
    assert decision(cluster, only_if_helps=False) == ("restart", "collapsed")


def test_a_single_replica_cannot_spread():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"])
    assert decision(cluster) == ("refused", "too_few_replicas")


def test_the_cooldown_holds_also_for_a_named_workload():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata=remember("unchanged", revision="hash1"))
    assert decision(cluster) == ("refused", "cooldown")
    assert decision(cluster, only_if_helps=False) == ("refused", "cooldown")
    assert decision(cluster, cooldown_s=30) == ("restart", "collapsed")


def test_without_a_cooldown_an_outcome_of_the_next_second_does_not_count():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata=remember("unchanged", revision="hash1", age_s=-1))
    assert decision(cluster, cooldown_s=0) == ("restart", "collapsed")


def test_an_outcome_of_another_revision_counts_as_absent():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata=remember("unchanged", revision="hash0"))
    assert decision(cluster) == ("restart", "collapsed")


def test_an_outcome_that_an_undo_brought_back_counts_as_absent():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata=remember("unchanged", revision="hash1"))
    cluster.replica_sets.clear()
    cluster.replica_set("web", 3, "hash1", annotations={"deployment.kubernetes.io/revision-history": "1"})
    assert decision(cluster) == ("restart", "collapsed")


@pytest.mark.parametrize(
    ("verdict", "number", "expected"),
    [
        pytest.param("unchanged", 1, ("restart", "collapsed"), id="written before the rollback"),
        pytest.param("unchanged", 2, ("restart", "collapsed"), id="written for the revision that was rolled back"),
        pytest.param("unchanged", 3, ("refused", "cooldown"), id="written after the rollback"),
        pytest.param("pending", 3, ("refused", "cooldown"), id="an eviction after the rollback"),
    ],
)
def test_an_outcome_counts_after_a_rollback_if_it_is_newer(verdict, number, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata=remember(verdict, revision="hash1", number=number))
    cluster.replica_sets.clear()
    cluster.replica_set("web", 2, "hash2")
    cluster.replica_set("web", 3, "hash1", annotations={"deployment.kubernetes.io/revision-history": "1"})
    assert decision(cluster) == expected


@pytest.mark.parametrize(("number", "expected"), [(2, "resume"), (1, "restart")])
def test_a_pending_restart_is_resumed_only_for_the_revision_that_it_made(number, expected):
    """Also where the ReplicaSet of the revision before it has been removed."""
    cluster = interrupted("worker-1", "worker-1")
    outcome = remember("pending", revision="gone", number=number)
    cluster.deployments[:] = [replace(cluster.deployments[0], metadata=replace(cluster.deployments[0].metadata, **outcome))]
    cluster.replica_sets.clear()
    cluster.replica_set("web", 3, "hash1")
    assert decision(cluster)[0] == expected


@pytest.mark.parametrize(("expected_revision", "action"), [(None, "resume"), ("rev1", "resume"), ("rev0", "restart")])
def test_a_stateful_set_with_another_revision_than_the_restart_made_is_of_another_client(expected_revision, action):
    outcome = make_outcome(now_s=NOW - 60, attempts=1, outcome="pending", revision="before", eligible="x")
    outcome = replace(outcome, expected=expected_revision)
    template = {"metadata": {"labels": {"app": "db"}, "annotations": {"kubectl.kubernetes.io/restartedAt": outcome.time}}}
    cluster = workers(2)
    workload = cluster.stateful_set("db", ["worker-1"] * 2, template=template)
    annotations = {OUTCOME_ANNOTATION: outcome.to_annotation()}
    cluster.stateful_sets[:] = [replace(workload, metadata=replace(workload.metadata, annotations=annotations))]
    assert decision(cluster)[0] == action


@pytest.mark.parametrize(
    ("made", "expected_revision", "options", "wanted"),
    [
        (2, None, {}, ("resume", "already_restarted")),
        (1, None, {}, ("refused", "cooldown")),
        (1, None, {"cooldown_s": 0}, ("restart", "collapsed")),
        (1, "rev1", {}, ("resume", "already_restarted")),
        (1, "rev0", {}, ("restart", "collapsed")),
    ],
    ids=["unchanged since", "changed since", "changed since, without cooldown", "scaled since", "rolled out since"],
)
def test_the_generation_shows_whose_rollout_it_is_until_the_revision_is_written_down(made, expected_revision, options, wanted):
    outcome = make_outcome(now_s=NOW - 60, attempts=1, outcome="pending", revision="before", eligible="x")
    outcome = replace(outcome, expected=expected_revision, generation=made)
    template = {"metadata": {"labels": {"app": "db"}, "annotations": {"kubectl.kubernetes.io/restartedAt": outcome.time}}}
    cluster = workers(2)
    found = cluster.stateful_set("db", ["worker-1"] * 2, template=template)
    metadata = replace(found.metadata, annotations={OUTCOME_ANNOTATION: outcome.to_annotation()}, generation=2)
    cluster.stateful_sets[:] = [replace(found, metadata=metadata, status=replace(found.status, observed_generation=2))]
    assert decision(cluster, **options) == wanted


def test_a_restart_that_was_interrupted_is_resumed_and_not_repeated():
    metadata = remember("pending", revision="hash0", age_s=0)
    cluster = workers(2)
    restarted = {"metadata": {"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}
    cluster.deployment("web", ["worker-1"] * 2, metadata=metadata, template=restarted)
    assert decision(cluster) == ("resume", "already_restarted")


def test_a_pending_outcome_of_a_template_that_was_changed_since_counts_as_absent():
    metadata = remember("pending", revision="hash0", age_s=0)
    cluster = workers(2)
    restarted = {"metadata": {"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:09Z"}}}
    cluster.deployment("web", ["worker-1"] * 2, metadata=metadata, template=restarted)
    assert decision(cluster) == ("restart", "collapsed")


def interrupted(*homes: str, age_s: int = 60, **spec: t.Any) -> ClusterBuilder:
    """A Deployment whose restart was interrupted before the second check; its rollout is done."""
    cluster = workers(2)
    metadata = remember("pending", revision="hash0", age_s=age_s)
    stamp = make_outcome(now_s=NOW - age_s, attempts=1, outcome="pending", revision="hash0", eligible="x").time
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"kubectl.kubernetes.io/restartedAt": stamp}}}
    cluster.deployment("web", homes, metadata=metadata, template=template, **spec)
    return cluster


def test_an_interrupted_restart_does_not_hold_a_workload_for_ever():
    assert decision(interrupted("worker-1", "worker-1", age_s=599)) == ("resume", "already_restarted")
    assert decision(interrupted("worker-1", "worker-1", age_s=600)) == ("restart", "collapsed")


def test_an_interrupted_restart_that_helped_is_settled_whenever_the_next_run_comes():
    assert decision(interrupted("worker-1", "worker-2", age_s=10**6)) == ("resume", "already_restarted")
    assert decision(interrupted("worker-1", "worker-2", age_s=10**6), cooldown_s=0) == ("resume", "already_restarted")
    assert decision(interrupted("worker-1", "worker-2", age_s=10**6), only_if_helps=False) == ("restart", "spread")


@pytest.mark.parametrize(("homes", "way"), [(("worker-1", "worker-2"), "rollout"), (("worker-1", "worker-1"), "evict_surplus")])
def test_an_interrupted_restart_is_settled_by_its_own_way_where_nothing_is_uneven(homes, way):
    cluster = interrupted(*homes)
    snapshot = cluster.snapshot()
    line = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    assert choose_strategy(line, snapshot, RestartOptions(strategy="evict_surplus")) == way


def test_without_second_checks_the_cooldown_counts_from_the_restart():
    assert decision(interrupted("worker-1", "worker-1"), verify_spread=False) == ("refused", "cooldown")
    assert decision(interrupted("worker-1", "worker-1", age_s=600), verify_spread=False) == ("restart", "collapsed")


def test_an_interrupted_restart_that_was_paused_meanwhile_is_refused():
    assert decision(interrupted("worker-1", "worker-1", paused=True)) == ("refused", "paused")


def test_a_rollout_of_another_client_after_an_interrupted_restart_counts_as_theirs():
    cluster = interrupted("worker-1", "worker-1")
    cluster.replica_sets.clear()
    cluster.replica_set("web", 1, "hash0")
    cluster.replica_set("web", 2, "ours")
    cluster.replica_set("web", 3, "hash1")
    assert decision(cluster) == ("restart", "collapsed")
    cluster.replica_sets.clear()
    cluster.replica_set("web", 2, "hash0")
    cluster.replica_set("web", 3, "hash1")
    assert decision(cluster) == ("resume", "already_restarted")


@pytest.mark.parametrize(
    "resource", ["pods", "replicasets", "poddisruptionbudgets", "persistentvolumeclaims", "resourcequotas", "limitranges"]
)
def test_what_may_not_be_read_is_no_permission(resource):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    snapshot = cluster.snapshot(skipped=[Skipped(resource, "app", f"cannot list {resource}")])
    line = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    made = decide_restart(line, snapshot, RestartOptions(), now_s=NOW)
    assert (made.action, str(made.reason)) == ("refused", f"unreadable: cannot list {resource}")
    without_budgets = decide_restart(line, snapshot, RestartOptions(allow_downtime=True), now_s=NOW)
    assert (without_budgets.action == "restart") == (resource == "poddisruptionbudgets")


@pytest.mark.parametrize("earlier", [0, 2])
def test_attempts_count_only_where_there_was_something_to_improve(earlier: int) -> None:
    cluster = workers(2)
    metadata = remember("unchanged", revision="hash1", age_s=86400, attempts=earlier)
    cluster.deployment("web", ["worker-1", "worker-2"], metadata=metadata)
    snapshot = cluster.snapshot()
    line = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0])
    decided = decide_restart(line, snapshot, RestartOptions(only_if_helps=False, max_attempts=9), now_s=NOW)
    assert (decided.action, decided.attempts) == ("restart", earlier)


BACK_OFF_S = 2400
"""The back-off after three attempts without effect."""


def three_nodes(*, uncordoned: bool = False, joined: bool = False) -> ClusterBuilder:
    cluster = workers(2)
    # The scheduler would prefer nodes without a zone for all pods.
    zone = {"topology.kubernetes.io/zone": "a"}
    cluster.node("worker-3", labels=zone, **({} if uncordoned else {"unschedulable": True}))
    if joined:
        cluster.node("worker-4", labels=zone)
    return cluster


def used_up(*, age_s: int, **change: bool) -> ClusterBuilder:
    """Three restarts had no effect while worker-3 was cordoned."""
    before = three_nodes()
    before.deployment("web", ["worker-1"] * 2)
    snapshot = before.snapshot()
    eligible = WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0]).eligible_hash
    outcome = make_outcome(now_s=NOW - age_s, attempts=3, outcome="unchanged", revision="hash1", eligible=eligible)
    cluster = three_nodes(**change)
    cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    return cluster


@pytest.mark.parametrize("change", [{"joined": True}, {"uncordoned": True}], ids=["joins", "changes"])
def test_a_node_that_joins_or_changes_lifts_the_stop_after_max_attempts_but_not_the_back_off(change):
    assert decision(used_up(age_s=BACK_OFF_S)) == ("refused", "attempts_used_up")
    assert decision(used_up(age_s=100 * BACK_OFF_S)) == ("refused", "attempts_used_up")
    assert decision(used_up(age_s=BACK_OFF_S - 1, **change)) == ("refused", "cooldown")
    assert decision(used_up(age_s=BACK_OFF_S, **change)) == ("restart", "collapsed")


def test_the_eligible_hash_does_not_move_with_the_pods():
    hashes = set()
    for homes in (["amd", "amd"], ["amd", "arm"], ["arm", "arm"]):
        cluster = ClusterBuilder()
        cluster.node("amd", labels={"kubernetes.io/arch": "amd64"})
        cluster.node("arm", labels={"kubernetes.io/arch": "arm64"})
        cluster.deployment("web", homes)
        snapshot = cluster.snapshot()
        hashes.add(WorkloadChecker(snapshot, CheckOptions()).check(snapshot.workloads()[0]).eligible_hash)
    assert len(hashes) == 1


def test_the_patch_has_only_the_restart_the_outcome_and_the_guard():
    workload = workers(2).deployment("web", ["worker-1"] * 2, metadata={"resourceVersion": "77"})
    outcome = make_outcome(now_s=NOW, attempts=2, outcome="pending", revision="hash1", eligible="abc")
    assert restart_patch(workload, outcome) == {
        "metadata": {"resourceVersion": "77", "annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}},
        "spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}},
    }


def progress(kind: str, status: dict[str, t.Any], **spec: t.Any) -> str:
    value = {"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3, **spec}, "status": {"observedGeneration": 2, **status}}
    workload = struct(Workload, value)
    force_setattr(workload, "kind", kind)
    return rollout_progress(workload).state


FULL = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
LATE = {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FULL, "done"),
        ({**FULL, "observedGeneration": 1}, "waiting"),
        ({**FULL, "updatedReplicas": 1}, "waiting"),
        ({**FULL, "replicas": 4}, "waiting"),
        ({**FULL, "availableReplicas": 2}, "waiting"),
        ({**FULL, **LATE}, "failed"),
        ({**FULL, **LATE, "observedGeneration": 1}, "waiting"),
    ],
)
def test_deployment_progress_by_kubectls_rules(status, expected):
    assert progress("Deployment", status) == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (FULL, "done"),
        ({**FULL, "updatedReplicas": 1}, "failed"),
        ({**FULL, "replicas": 4}, "failed"),
        ({**FULL, "observedGeneration": 1}, "waiting"),
    ],
)
def test_the_rollout_of_a_paused_deployment_is_not_waited_for(status, expected):
    assert progress("Deployment", status, paused=True) == expected


REVISIONS = {"currentRevision": "a", "updateRevision": "a"}
PARTITION = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}


@pytest.mark.parametrize(
    ("status", "spec", "expected"),
    [
        ({**FULL, **REVISIONS}, {}, "done"),
        ({**FULL, **REVISIONS, "observedGeneration": 0}, {}, "waiting"),
        ({**FULL, **REVISIONS, "readyReplicas": 2}, {}, "waiting"),
        ({**FULL, **REVISIONS, "updatedReplicas": 2}, {}, "waiting"),
        ({**FULL, "currentRevision": "a", "updateRevision": "b"}, {}, "waiting"),
        ({**FULL, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 1}, PARTITION, "done"),
        ({**FULL, "currentRevision": "a", "updateRevision": "b", "updatedReplicas": 0}, PARTITION, "waiting"),
        ({**FULL, **REVISIONS}, {"updateStrategy": {"type": "OnDelete"}}, "failed"),
    ],
)
def test_stateful_set_progress_by_kubectls_rules(status, spec, expected):
    assert progress("StatefulSet", status, **spec) == expected
