# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The limits of one run: what counts, and the reason that names the limit."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError, check_minima
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction, planned_moves
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, MINIMA, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.possible_states import PossibleState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.run_limits import RunLimits
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

from tests.unit.support.cluster import NOW, workers
from tests.unit.support.objects import running

WEB, API = Target("Deployment", "shop", "web"), Target("Deployment", "shop", "api")


def pod(node: str, namespace: str = "shop") -> Pod:
    """A pod with a uid of its own."""
    return running(node, namespace=namespace)


def text(reason: Reason | None) -> str:
    return "" if reason is None else str(reason)


def test_without_limits_everything_is_allowed() -> None:
    limits = RunLimits(RestartOptions())
    for _number in range(1000):
        assert limits.workload_limit_violation(WEB) is None and limits.eviction_limit_violation(WEB, pod("a")) is None
        limits.add_restart(WEB)
        limits.add_eviction(WEB, pod("a"))


def test_max_workloads_counts_each_restarted_or_evicted_workload_once() -> None:
    limits = RunLimits(RestartOptions(max_workloads=1))
    limits.add_eviction(WEB, pod("a"))
    limits.add_eviction(WEB, pod("b"))
    assert limits.eviction_limit_violation(WEB, pod("c")) is None, "the workload is counted already"
    assert text(limits.workload_limit_violation(API)) == "limit_reached: the limit max_workloads (1 workload in a run) is reached"
    assert limits.eviction_limit_violation(API, pod("c")) == limits.workload_limit_violation(API)


@pytest.mark.parametrize(
    ("limit", "allowed", "said"),
    [
        ("max_evictions", (), "the limit max_evictions (1 pod in a run) is reached"),
        ("max_evictions_per_node", (("b", "shop"),), "the limit max_evictions_per_node (1 pod in a run) is reached for node a"),
        (
            "max_evictions_per_namespace",
            (("a", "other"),),
            "the limit max_evictions_per_namespace (1 pod in a run) is reached for namespace shop",
        ),
    ],
)
def test_evictions_are_counted_in_a_run_for_a_node_and_in_a_namespace(limit: str, allowed: t.Any, said: str) -> None:
    limits = RunLimits(RestartOptions(**{limit: 1}))
    limits.add_eviction(WEB, pod("a"))
    violation = limits.eviction_limit_violation(API, pod("a"))
    assert text(violation) == f"limit_reached: {said}"
    others = [("b", "shop"), ("a", "other")]
    assert [other for other in others if limits.eviction_limit_violation(API, pod(*other)) is None] == list(allowed)
    assert limits.workload_limit_violation(API) is None, "a restart is no eviction"


def test_an_eviction_that_was_not_made_does_not_count() -> None:
    limits = RunLimits(RestartOptions(max_evictions=1, max_workloads=1))
    web = pod("a")
    limits.of(WEB).add(web)
    limits.of(WEB).remove(web)
    assert limits.eviction_limit_violation(API, pod("a")) is None
    limits.of(WEB).remove(web)
    limits.of(WEB).add(pod("a"))
    assert limits.eviction_limit_violation(API, pod("a")) is not None, "nothing is taken back twice"


def test_a_pod_counts_once_and_may_be_requested_again() -> None:
    limits = RunLimits(RestartOptions(max_evictions=2, max_evictions_per_node=2, max_evictions_per_namespace=2, max_workloads=2))
    web = pod("a")
    for _request in range(3):
        assert limits.of(WEB).violation(web) is None
        limits.of(WEB).add(web)
    limits.of(API).add(pod("a"))
    assert limits.of(WEB).violation(web) is None and limits.of(WEB).violation(pod("a")) is not None


def test_a_namespace_that_has_taken_its_time_is_not_moved_any_more() -> None:
    limits, other = RunLimits(RestartOptions(wait_timeout_s=60, max_parallel=2)), Target("Deployment", "other", "web")
    limits.add_restart(WEB)
    planned = limits.fork()
    limits.add_time("shop", 719)
    assert limits.workload_limit_violation(API) is None
    limits.add_time("shop", 1)
    text = "limit_reached: the workloads of namespace shop have taken 720 s of this run, and it may take 720 s; the next run continues"
    for target in (WEB, API):
        assert str(limits.workload_limit_violation(target)) == str(limits.eviction_limit_violation(target, pod("a"))) == text
        assert str(planned.workload_limit_violation(target)) == text
    assert limits.workload_limit_violation(other) is None


def test_the_time_of_a_namespace_is_ten_minutes_at_least() -> None:
    limits = RunLimits(RestartOptions(wait_timeout_s=1))
    limits.add_time("shop", 599)
    assert limits.workload_limit_violation(WEB) is None
    limits.add_time("shop", 1)
    assert limits.workload_limit_violation(WEB) is not None


def plan(options: RestartOptions, *homes: str) -> tuple[list[tuple[str, str]], str]:
    """The planned moves of a Deployment of four nodes, and the limit that ends them."""
    cluster = workers(4)
    cluster.deployment("web", homes)
    snapshot = cluster.snapshot()
    (report,) = check_spread(snapshot, CheckOptions(max_skew=1)).workloads
    state = PossibleState(ClusterState.of(snapshot), RunLimits(options))
    limits = state.limits.of(Target("Deployment", "app", "web"))
    decision = decide_eviction(report, snapshot, state.cluster_state, options, limits=limits, now_s=NOW)
    if decision.move is None:
        return [], text(decision.reason)
    planned = planned_moves(report, snapshot, state, options, decision.move, 0)
    return [(move.pod.spec.node_name, move.node) for move in planned.moves], text(planned.last)


def test_a_plan_ends_at_the_limit() -> None:
    moves, limited = plan(RestartOptions(strategy=EVICT_SURPLUS, dry_run=True, max_skew=1, max_evictions=1), *["worker-1"] * 4)
    assert [source for source, _target in moves] == ["worker-1"] and "max_evictions (1 pod in a run)" in limited
    assert len(plan(RestartOptions(strategy=EVICT_SURPLUS, dry_run=True, max_skew=1), *["worker-1"] * 4)[0]) == 3


def test_a_pod_of_another_node_is_evicted_where_the_limit_of_the_first_node_is_reached() -> None:
    homes = [*["worker-1"] * 4, *["worker-2"] * 4]
    moves, limited = plan(RestartOptions(strategy=EVICT_SURPLUS, dry_run=True, max_skew=1, max_evictions_per_node=1), *homes)
    assert sorted(source for source, _target in moves) == ["worker-1", "worker-2"]
    assert "max_evictions_per_node (1 pod in a run)" in limited


@pytest.mark.parametrize("name", ["max_workloads", "max_evictions", "max_evictions_per_node", "max_evictions_per_namespace"])
def test_a_limit_below_one_is_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match=f"{name} is 0: it must be at least 1"):
        check_minima({name: 0}, MINIMA)
