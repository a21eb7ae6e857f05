# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The strategy auto: a collapsed workload gets a rollout, or single evictions where only a rollout is refused or does not help."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.stopping import Stop, never_stop
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.outside_window import WINDOW_ANNOTATION
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import AUTO, RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import (
    OUTCOME_ANNOTATION,
    eligible_hash,
    make_outcome,
)

from tests.unit.operations.restart.test_limited_evictions import EvictingApi
from tests.unit.support.cluster import NOW, ClusterBuilder, revision_of, workers

RECREATE = {"strategy": {"type": "Recreate"}}
TWO_AWAY = {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}}}
NODES = eligible_hash(["worker-1", "worker-2"])
CLOSED = {"annotations": {WINDOW_ANNOTATION: "Wed 00:00-24:00 UTC"}}


def piled(**spec: Any) -> ClusterBuilder:
    """Three replicas on one of two nodes."""
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 3, **spec)
    return cluster


def run(
    cluster: ClusterBuilder, answer: Exception | None = None, *, stop: Stop = never_stop, **options: Any
) -> tuple[RestartResult, EvictingApi]:
    """Run once. ``answer``: that of the server to each eviction."""
    api = EvictingApi(cluster, then=answer)
    api._evicted_today = answer is not None
    given = {"strategy": AUTO, "wait_timeout_s": 0.2, "wait_sleep_s": 0.1, **options}
    (result,) = run_restart(api, [Target("Deployment", "app", "web")], RestartOptions(**given), stop=stop)
    return result, api


def code(result: RestartResult) -> tuple[str, str]:
    return result.action, result.reason.code if result.reason is not None else ""


@pytest.mark.parametrize("spec", [RECREATE, TWO_AWAY])
def test_a_strategy_that_refuses_a_rollout_does_not_prevent_evictions(spec: dict[str, Any]) -> None:
    cluster = piled(**spec)
    cluster.budget("web", "web", desired=2, current=3)
    rollout, _ = run(cluster, strategy="rollout")
    assert rollout.action == "refused"
    result, api = run(cluster)
    assert (code(result), result.outcome, api.evicted) == (("evicted", "collapsed"), "improved", 1)


def test_a_rollout_that_does_not_help_is_replaced_by_evictions() -> None:
    """The quota admits no surge pod, and an evicted pod leaves its quota to its replacement."""
    cluster = piled(strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
    cluster.quota("small", {"pods": "3"}, {"pods": "3"})
    rollout, _ = run(cluster, strategy="rollout")
    assert code(rollout) == ("skipped", "no_gain")
    planned, api = run(cluster, dry_run=True)
    assert len(planned.evicted) == 1 and api.evicted == 0 and not api.patches
    result, api = run(cluster)
    assert (code(result), api.evicted, [pod.node for pod in result.evicted]) == (("evicted", "collapsed"), 1, ["worker-1"])


def test_a_rollout_that_helps_stays_the_choice() -> None:
    result, api = run(piled())
    assert result.action == "restarted" and api.evicted == 0


def outcome(attempts: int, age_s: int) -> dict[str, Any]:
    remembered = make_outcome(now_s=NOW - age_s, attempts=attempts, outcome="unchanged", revision=revision_of("web"), eligible=NODES)
    return {"annotations": {OUTCOME_ANNOTATION: remembered.to_annotation()}}


NO_POD = "the Recreate strategy of Deployment app/web may leave no ready pod; and no single pod is evicted: "


@pytest.mark.parametrize(
    ("spec", "options", "reason", "text"),
    [
        ({**RECREATE, "metadata": CLOSED}, {}, "outside_window", f"{NO_POD}Deployment app/web is outside of its"),
        ({**RECREATE, "metadata": outcome(1, 60)}, {}, "cooldown", NO_POD),
        ({**RECREATE, "metadata": outcome(3, 86400)}, {}, "attempts_used_up", f"{NO_POD}3 attempts made no progress"),
        ({**RECREATE, "paused": True}, {}, "paused", "is paused"),
        (RECREATE, {"only_if_helps": False}, "downtime", "may leave no ready pod"),
    ],
)
def test_what_forbids_every_move_forbids_the_evictions_too(spec: dict[str, Any], options: dict[str, Any], reason: str, text: str) -> None:
    result, api = run(piled(**spec), **options)
    assert code(result) == ("refused", reason) and api.evicted == 0
    assert text in result.message, result.message


def test_a_workload_beyond_a_limit_is_skipped_with_its_reason() -> None:
    cluster = piled(**RECREATE)
    cluster.deployment("api", ["worker-1"] * 3, **RECREATE)
    targets = [Target("Deployment", "app", name) for name in ("web", "api")]
    for dry_run in (True, False):
        options = RestartOptions(strategy=AUTO, max_workloads=1, dry_run=dry_run, wait_timeout_s=1, wait_sleep_s=1)
        moved, limited = run_restart(EvictingApi(cluster), targets, options)
        assert moved.evicted and code(limited) == ("skipped", "limit_reached"), limited
        assert "evict_surplus" not in limited.message


BOTH = "a rollout of Deployment app/web may leave .*; and no single pod is evicted: pod app/.* may not be evicted"


def test_a_budget_that_allows_no_eviction_is_kept() -> None:
    cluster = piled(**TWO_AWAY)
    cluster.budget("web", "web", desired=3, current=3)
    result, api = run(cluster)
    assert code(result) == ("refused", "budget") and api.evicted == 0
    assert re.match(BOTH, result.message), result.message


def opens_soon() -> ClusterBuilder:
    cluster = piled(**TWO_AWAY)
    cluster.budget("web", "web", desired=2, current=2, expected=3)
    return cluster


def test_an_eviction_that_is_refused_after_a_wait_has_both_reasons(slept: list[float]) -> None:
    result, api = run(opens_soon())
    assert code(result) == ("refused", "budget") and api.evicted == 0 and slept
    assert re.match(BOTH, result.message), result.message


def test_a_run_that_is_stopped_while_an_eviction_waits_refuses_nothing(slept: list[float]) -> None:
    stopped = Reason("stopping", "the program was told to stop")
    result, api = run(opens_soon(), stop=lambda: stopped if slept else None)
    assert (result.action, result.reason) == ("skipped", stopped) and api.evicted == 0


def test_an_eviction_that_only_the_server_denies_has_both_reasons() -> None:
    """The budget of the snapshot allows an eviction, and a webhook denies it after the dry run."""
    denied = ForbiddenError('admission webhook "keeper.example" denied the request: keep it', status=403, reason="Forbidden")
    result, api = run(piled(**RECREATE), denied)
    assert code(result) == ("refused", "denied") and api.evicted == 0 and api.outcome_of("web") is None
    assert "; and no single pod is evicted: the eviction of pod app/" in result.message, result.message


@pytest.mark.parametrize(("wait_timeout_s", "expected"), [(60, ("would_evict", "collapsed")), (40, ("refused", "too_slow"))])
def test_a_rollout_that_takes_too_long_is_replaced_by_evictions(wait_timeout_s: int, expected: tuple[str, str]) -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 5, minReadySeconds=45)
    result, _api = run(cluster, dry_run=True, wait_timeout_s=wait_timeout_s)
    assert code(result) == expected
    both = "a rollout of Deployment app/web .*; and no single pod is evicted: the replacement of a pod of Deployment app/web takes"
    assert result.evicted or re.match(both, result.message), result.message


def test_a_quota_that_does_not_admit_all_new_pods_may_admit_one() -> None:
    """A LimitRange gives 200m to new pods, and the present ones request 100m."""
    cluster = piled(template={"spec": {"containers": [{"name": "main"}]}})
    given = {"kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container main"}
    cluster.pods[:] = [replace(pod, metadata=replace(pod.metadata, annotations=given)) for pod in piled().pods]
    cluster.limit_range(defaultRequest={"cpu": "200m"})
    cluster.quota("small", {"requests.cpu": "400m"}, {"requests.cpu": "300m"})
    rollout, _ = run(cluster, strategy="rollout")
    assert code(rollout) == ("refused", "quota")
    result, api = run(cluster)
    assert (code(result), api.evicted) == (("evicted", "collapsed"), 1)


def test_a_pod_that_has_no_other_place_stays() -> None:
    cluster = ClusterBuilder()
    cluster.node("worker-1")
    cluster.node("worker-2", allocatable={"cpu": "1m", "memory": "1Gi", "pods": "110"})
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    cluster.deployment("web", ["worker-1"] * 3, template=template)
    result, api = run(cluster)
    assert code(result) == ("skipped", "no_capacity") and api.evicted == 0
    assert "; and no single pod is evicted: no domain with fewer replicas is known to have free capacity" in result.message
