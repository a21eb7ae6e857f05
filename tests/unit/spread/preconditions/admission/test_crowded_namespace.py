# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A tenant with many quotas, limit ranges and autoscalers costs in proportion to them, and gets the same answers as from each one alone."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.quantity import NANO, parse_quantity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.pod_requests import pod_requests
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.next_pod.next_pod import next_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission import limit_range, quota_index
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.admission import admission_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.quota import quota_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.admission.surge_quota import surge_capacity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import rollout_bounds

from tests.unit.support.calls import CountedCalls
from tests.unit.support.cluster import ClusterBuilder, workers


def crowd(size: int) -> ClusterBuilder:
    """So many different uneven Deployments, quotas, limit ranges and autoscalers in one namespace; nothing forbids a restart."""
    cluster = workers(3)
    for number in range(size):
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": f"{number + 1}m"}, "limits": {"cpu": "1"}}}]}
        cluster.deployment(f"app-{number}", ["worker-1"] * 2, template={"spec": spec})
        cluster.quota(f"quota-{number}", {"pods": "1000", "requests.cpu": "1000"}, {"pods": str(size), "requests.cpu": "1"})
        cluster.limit_range(max={"cpu": "4"}, min={"cpu": "1u"}, maxLimitRequestRatio={"cpu": "1000"})
        cluster.autoscaler(f"app-{number}", 1, 9, 2)
    return cluster


class Watched(list[t.Any]):
    """A list that counts what is read of it."""

    read = 0

    def __iter__(self) -> t.Iterator[t.Any]:
        for item in super().__iter__():
            Watched.read += 1
            yield item


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (quota_index, "quota_matches_pod"),
        (quota_index, "parse_quantity"),
        (quota_index, "_usage"),
        (limit_range, "_beyond"),
        (limit_range, "parse_quantity"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.rpartition(".")[2],
)
def test_quotas_and_limit_ranges_are_compared_in_proportion_to_their_number(
    module: t.Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, counts = getattr(module, name), []
    for size in (20, 40):
        compared = CountedCalls(function)
        with monkeypatch.context() as patch:
            patch.setattr(module, name, compared)
            report = check_spread(crowd(size).snapshot(), CheckOptions())
        assert report.count("collapsed") == size and all(line.restartable for line in report.workloads)
        counts.append(compared.count)
    assert 0 < counts[1] <= 2.2 * counts[0]


def test_autoscalers_are_read_once() -> None:
    snapshot = crowd(20).snapshot()
    snapshot.autoscalers_by_namespace["app"] = Watched(snapshot.autoscalers_by_namespace["app"])
    Watched.read = 0
    report = check_spread(snapshot, CheckOptions())
    assert all(line.restartable for line in report.workloads) and Watched.read == 20


@pytest.mark.parametrize("seed", range(60))
def test_the_first_quota_that_admits_fewest_pods_bounds_the_surge(seed: int) -> None:
    chance = random.Random(seed)
    cluster = workers(2)
    for number in range(chance.randint(0, 5)):
        hard = {name: str(chance.randint(0, 6)) for name in chance.sample(["pods", "requests.cpu", "cpu", "limits.cpu", "count/pods"], 2)}
        used = {name: str(chance.randint(0, 4)) for name in hard}
        scopes = chance.choice([{}, {}, {"scopes": ["BestEffort"]}, {"scopes": ["NotBestEffort"]}])
        cluster.quota(f"quota-{number}", hard, used, **scopes)
    for name, cpu in (("one", "500m"), ("two", "2"), ("three", "500m")):
        spec = {"containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}]}
        cluster.deployment(
            name, ["worker-1"] * 4, template={"spec": spec}, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 1}}
        )
    snapshot = cluster.snapshot()
    for workload in snapshot.workloads():
        pod = next_pod(workload, snapshot).pod
        cpu = pod_requests(pod, from_status=False)["cpu"] * NANO // 1000
        needs = {"pods": NANO, "count/pods": NANO, "cpu": cpu, "requests.cpu": cpu}
        room, bounded_by, beyond = rollout_bounds(workload).max_surge, "", []
        for one in snapshot.quotas_by_namespace.get("app", ()):
            if "BestEffort" in (one.spec.scopes or ()):
                continue
            hard, used = one.status.hard or {}, one.status.used or {}
            left = {name: parse_quantity(hard[name]) - parse_quantity(used[name]) for name in hard if name in needs}
            fits = min((max(0, amount) // needs[name] for name, amount in left.items()), default=room)
            if fits < room:
                room, bounded_by = fits, one.metadata.name
            beyond += [one.metadata.name for amount in left.values() if amount < 0]
        assert surge_capacity(workload, snapshot) == (room, bounded_by)
        reason = quota_violation(workload, snapshot)
        assert (reason is None) == (not beyond)
        assert reason is None or f"ResourceQuota {beyond[0]} is overdrawn" in reason.text


def test_each_workload_is_named_in_its_own_refusal_although_the_answer_is_shared() -> None:
    cluster = workers(2)
    for name in ("one", "two"):
        cluster.deployment(name, ["worker-1"] * 2)
    cluster.limit_range(max={"cpu": "50m"})
    lines = check_spread(cluster.snapshot(), CheckOptions()).workloads
    assert [str(line.workload) in str(line.refusal) for line in lines] == [True, True]


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max": {"cpu": "200m"}}, "allows at most 200m cpu"),
        ({"min": {"cpu": "700m"}}, "allows at least 700m cpu"),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, "allows a limit of cpu of at most 2 times the request"),
    ],
)
def test_the_tightest_of_many_limits_turns_a_pod_down(limit: dict[str, t.Any], said: str) -> None:
    cluster = workers(2)
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}}]}
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": spec})
    wide = {"max": {"cpu": "9"}, "min": {"cpu": "1m"}, "maxLimitRequestRatio": {"cpu": "50"}}
    for one in (wide, limit, wide):
        cluster.limit_range(**one)
    snapshot = cluster.snapshot()
    reason = admission_violation(snapshot.workloads()[0], snapshot)
    assert reason is not None and said in reason.text


def test_the_first_quota_that_wants_a_limit_of_every_container_turns_a_pod_down() -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    for name, hard in (("free", "requests.cpu"), ("strict", "limits.memory"), ("late", "limits.cpu")):
        cluster.quota(name, {hard: "100"}, {})
    snapshot = cluster.snapshot()
    reason = admission_violation(snapshot.workloads()[0], snapshot)
    assert reason is not None and "ResourceQuota strict requires limits.memory of every container" in reason.text
