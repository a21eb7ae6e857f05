# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The plan of check mode: each action is decided on the states that the actions before it may leave, as the run decides it."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult, restart_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker, check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.history import RESTARTED_AT
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.draws import DRAWS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, STRATEGIES, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.possible_states import (
    PossibleState,
    PossibleStates,
    StateAfter,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.run_limits import RunLimits
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION, make_outcome

from tests.unit.operations.restart.test_limited_evictions import EvictingApi
from tests.unit.support.cluster import NOW, ClusterBuilder, Json, workers
from tests.unit.support.fakes import FakeApi

HOST = "kubernetes.io/hostname"


def target(name: str) -> Target:
    return Target("Deployment", "app", name)


def plan(cluster: ClusterBuilder, *names: str, **options: t.Any) -> list[RestartResult]:
    return run_restart(
        FakeApi(cluster, now=NOW), [target(name) for name in names], RestartOptions(dry_run=True, asks_server=False, **options)
    )


def actions(results: Sequence[RestartResult]) -> list[tuple[str, str]]:
    return [(result.action, result.reason.code if result.reason is not None else "") for result in results]


def replicas(result: RestartResult) -> dict[str, int]:
    return {node: count for node, count in result.expected[HOST].items() if count}


def small(cpu: str, **more: Json) -> Json:
    """A template whose pods request this cpu."""
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more}}


def piled_up() -> ClusterBuilder:
    """Deployments on the first of six nodes, without a rule about spreading."""
    cluster = workers(6)
    for name, count in (("first", 4), ("second", 6), ("third", 2), ("fourth", 2)):
        cluster.deployment(name, ["worker-1"] * count, template=small("100m"))
    return cluster


def test_a_later_workload_is_planned_as_it_is_checked_after_the_earlier_restarts() -> None:
    results = plan(piled_up(), "first", "second", "third", "fourth")
    assert actions(results) == [("would_restart", "collapsed")] * 4
    after = workers(6)
    for result in results[:2]:
        homes = [node for node, count in replicas(result).items() for _replica in range(count)]
        after.deployment(result.target.name, homes, template=small("100m"))
    for name in ("third", "fourth"):
        after.deployment(name, ["worker-1"] * 2, template=small("100m"))
    checked = {report.workload.metadata.name: report for report in check_spread(after.snapshot(), CheckOptions()).workloads}
    assert checked["third"].restartable


def test_the_expected_replicas_are_all_replicas_on_eligible_nodes() -> None:
    for result in plan(piled_up(), "first", "second", "third"):
        assert sum(result.expected[HOST].values()) == sum(result.before[HOST].values())
        assert result.expected[HOST].keys() == result.before[HOST].keys()
        assert max(result.expected[HOST].values()) < max(result.before[HOST].values())


def test_the_expected_replicas_of_a_plan_are_those_of_the_check() -> None:
    checked = next(one for one in check_spread(piled_up().snapshot(), CheckOptions()).workloads if one.workload.metadata.name == "first")
    (planned,) = plan(piled_up(), "first")
    assert checked.prediction is not None and planned.expected == checked.prediction.expected


def test_the_expected_replicas_are_on_the_nodes_of_the_planned_replacements() -> None:
    cluster = workers(6)
    cluster.deployment("web", ["worker-1"] * 4 + ["worker-2"])
    (result,) = plan(cluster, "web", strategy=EVICT_SURPLUS, max_skew=1)
    after = dict(result.before[HOST])
    for pod in result.evicted:
        after[pod.node] -= 1
        after[pod.replacement_node] += 1
    assert result.evicted and result.expected == {HOST: after}


def one_free_place(*, others: int) -> ClusterBuilder:
    """Two nodes that are full but for one pod of 1 cpu on the second one, and ``others`` nodes for the first Deployment only."""
    cluster = ClusterBuilder()
    cluster.node("worker-1", allocatable={"cpu": "8", "memory": "16Gi", "pods": "110"})
    for number in range(2, 2 + others):
        cluster.node(f"worker-{number}", allocatable={"cpu": "1", "memory": "16Gi", "pods": "110"})
    return cluster


def test_what_depends_on_the_end_of_an_earlier_action_is_conditional() -> None:
    # The new pod of `first` takes one of two equal nodes. Only one of them is open to `second`.
    cluster = one_free_place(others=2)
    anywhere = small("1")
    cluster.deployment("first", ["worker-1"] * 2, template=anywhere, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    only = {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["worker-1", "worker-2"]}]}]}
    bound = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}}
    cluster.deployment("second", ["worker-1"] * 2, template=small("1", affinity=bound))
    first, second = plan(cluster, "first", "second")
    assert first.action == "would_restart" and second.action == "would_restart_if", (first, second)
    assert second.condition.startswith("only if Deployment app/first ends with "), second.condition
    assert second.message.endswith(f"; {second.condition}") and "worker-3" in second.condition
    entry = restart_result([second], named=False)["workloads"][0]
    assert (entry["condition"], entry["expected"], entry["outcome"]) == (second.condition, second.expected, "pending")


def begun(cluster: ClusterBuilder) -> None:
    """A Deployment whose restart has replaced one of two replicas. The old one on worker-2 has a request of 3 cpu, the new ones less."""
    outcome = make_outcome(now_s=NOW - 5, attempts=1, outcome="pending", revision="old", eligible="x")
    template = {"metadata": {"labels": {"app": "begun"}, "annotations": {RESTARTED_AT: outcome.time}}, **small("100m")}
    metadata = {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}
    cluster.deployment("begun", ["worker-1"], replicas=2, template=template, metadata=metadata, status={"updatedReplicas": 1})
    cluster.replica_set("begun", 0, "old")
    cluster.pod("begun-old", "worker-2", owner=("ReplicaSet", "rs-begun-old"), template=small("3"), labels={"pod-template-hash": "old"})


def test_a_restart_in_progress_is_assumed_to_end() -> None:
    cluster = workers(2)
    begun(cluster)
    cluster.deployment("later", ["worker-1"] * 2, template=small("1100m"))
    first, later = plan(cluster, "begun", "later")
    assert (first.action, first.reason and first.reason.code, first.expected) == ("skipped", "already_restarted", {})
    assert (later.action, later.condition) == ("would_restart", ""), later.message
    (alone,) = plan(cluster, "later")
    assert actions([alone]) == [("skipped", "no_gain")], "the old pod uses worker-2"


def test_the_new_pods_of_a_restart_in_progress_stay_on_their_nodes() -> None:
    cluster = workers(3)
    begun(cluster)
    snapshot = cluster.snapshot()
    checker = WorkloadChecker(snapshot, CheckOptions())
    report = checker.check(snapshot.workloads()[0])
    for number in range(DRAWS):
        restart = checker.simulate_restart(report, checker.cluster_state, number)
        assert len(restart.nodes) == 2 and restart.nodes[0] == "worker-1"
        pods = [pod for node in snapshot.nodes for pod in restart.cluster_state.pods_on(node)]
        assert [pod.metadata.name for pod in pods if not pod.terminating] == ["begun-0", "simulated-1"]


@pytest.mark.parametrize("bounds", [{}, {"maxSurge": 2, "maxUnavailable": 0}, {"maxSurge": "100%", "maxUnavailable": 0}])
def test_no_old_pod_is_left_after_an_assumed_restart(bounds: Json) -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 4, strategy={"rollingUpdate": bounds} if bounds else {})
    snapshot = cluster.snapshot()
    checker = WorkloadChecker(snapshot, CheckOptions())
    report = checker.check(snapshot.workloads()[0])
    for number in range(DRAWS):
        state = checker.simulate_restart(report, checker.cluster_state, number).cluster_state
        pods = [pod for node in snapshot.nodes for pod in state.pods_on(node)]
        assert sum(pod.metadata.uid.startswith("simulated-") for pod in pods) == 4
        assert len(pods) == 4


@pytest.mark.parametrize(
    ("options", "moved", "limit"),
    [
        ({"max_workloads": 2}, 2, "max_workloads (2 workloads in a run)"),
        ({"strategy": EVICT_SURPLUS, "max_evictions": 2}, 1, "max_evictions (2 pods in a run)"),
    ],
)
def test_a_plan_ends_at_a_limit(options: dict[str, t.Any], moved: int, limit: str) -> None:
    results = plan(piled_up(), "first", "second", "third", "fourth", **options)
    assert [result.action.startswith("would_") for result in results] == [True] * moved + [False] * (4 - moved)
    assert actions(results[moved:]) == [("skipped", "limit_reached")] * (4 - moved)
    assert {result.message for result in results[moved:]} == {f"the limit {limit} is reached"}


def test_an_evict_plan_ends_when_the_workload_is_even_enough() -> None:
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3 + ["worker-2"] * 2 + ["worker-3"])
    (result,) = plan(cluster, "web", strategy=EVICT_SURPLUS, max_skew=2)
    assert [pod.node for pod in result.evicted] == ["worker-1"], "3 to 0 becomes 2 to 1"
    assert (result.action, sum(replicas(result).values())) == ("would_evict", 6)
    assert "then no other pod" not in result.message


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_plan_without_waiting_has_one_move_for_each_budget_as_the_run_has(strategy: str) -> None:
    cluster = workers(6)
    for name in ("web", "api"):
        labels = {"metadata": {"labels": {"app": name, "team": "x"}}}
        cluster.deployment(name, ["worker-1"] * 4, template=labels, strategy={"rollingUpdate": {"maxUnavailable": 1}})
    cluster.pods[:] = [replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, "team": "x"})) for pod in cluster.pods]
    cluster.budget("team", "", desired=5, current=8, labels={"team": "x"})
    both = [target("web"), target("api")]
    planned, made = (
        run_restart(EvictingApi(cluster), both, RestartOptions(strategy=strategy, wait=False, dry_run=dry_run, asks_server=False))
        for dry_run in (True, False)
    )
    assert planned[0].action == f"would_{made[0].action.removesuffix('ed')}"
    assert actions(planned[1:]) == actions(made[1:]) == [("refused", "budget")] and planned[1].message == made[1].message


def test_conditions_name_the_end_that_decides() -> None:
    cluster_state = WorkloadChecker(workers(1).snapshot(), CheckOptions()).cluster_state
    limits = RunLimits(RestartOptions())
    states = PossibleStates(cluster_state, limits, DRAWS)
    assert states.condition(states.distinct) == ""

    def assume(name: str, ends: Sequence[dict[str, int]], *acting: PossibleState) -> None:
        def act(_state: PossibleState, number: int) -> StateAfter:
            end = {HOST: ends[number % len(ends)]}
            return StateAfter(repr(end), cluster_state, limits, end)

        states.assume(target(name), acting or states.distinct, act)

    assume("first", [{"a": 2, "b": 0}, {"a": 1, "b": 1}, {"a": 2, "b": 0}, {"b": 1, "a": 1}])
    even = [state for state in states.distinct if state.ends[target("first")][HOST]["b"]]
    assert len(states.distinct) == 3
    assert states.condition(even) == "only if Deployment app/first ends with a=1, b=1"
    assume("second", [{"a": 1}], *even)
    moved = [state for state in states.distinct if target("second") in state.ends]
    others = [state for state in states.distinct if target("second") not in state.ends]
    assert states.condition(moved) == "only if Deployment app/second ends with a=1"
    assert states.condition(others) == "only if Deployment app/second is not moved"
    assume("third", [{node: 1} for node in "abcdefgh"])
    some = states.distinct[:1] + states.distinct[-1:]
    assert states.condition(some) == "only if Deployment app/third ends with a=1 or Deployment app/third ends with h=1"
    assume("fourth", [{"a": 1}])
    ended = states.distinct[:-1]
    assert states.condition(ended) == "unless Deployment app/third ends with h=1"
    assert states.condition(states.distinct[-1:]) == "only if Deployment app/third ends with h=1"
    even, odd = {"a": 1, "b": 1}, {"a": 2}
    states = PossibleStates(cluster_state, limits, DRAWS)
    assume("first", [even, odd])
    assume("second", [even, even, odd, odd])
    equal = [state for state in states.distinct if state.ends[target("first")] == state.ends[target("second")]]
    simulations = "in 4 of 8 simulations of the earlier actions (Deployment app/first, Deployment app/second)"
    assert states.condition(equal) == f"{simulations}: plan again after them"
