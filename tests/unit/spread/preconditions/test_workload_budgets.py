# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The budgets of workloads are the same as by a comparison of every budget with every pod, with less work."""

from __future__ import annotations

import random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.policy import PodDisruptionBudget
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors import label_selector, selector_index
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.label_selector import matches
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions import budget_status, workload_budgets
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.preconditions.restart import disruption_violation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import is_rolling

from tests.unit.support.calls import CountedCalls
from tests.unit.support.cluster import ClusterBuilder, workers

NAMES = ("web", "api", "db")
TEAMS = ("red", "blue")
ONE_LESS = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def every_budget_that_selects(workload: Workload, snapshot: ClusterSnapshot) -> list[PodDisruptionBudget]:
    """The oracle: compare every budget with the template and with every pod."""
    label_sets = [workload.spec.template.metadata.labels, *(pod.metadata.labels for pod in snapshot.owned_pods(workload))]
    budgets = snapshot.budgets_by_namespace.get("app", ())
    return [budget for budget in budgets if any(matches(budget.spec.selector, labels) for labels in label_sets)]


def rolling_beside(workload: Workload, snapshot: ClusterSnapshot) -> Workload | None:
    """The oracle: the first rolling workload that shares the first budget that is shared with a rolling one."""
    for budget in every_budget_that_selects(workload, snapshot):
        for other in snapshot.workloads_by_namespace["app"]:
            if other is not workload and budget in every_budget_that_selects(other, snapshot) and is_rolling(other, snapshot):
                return other
    return None


def random_cluster(seed: int) -> ClusterSnapshot:
    chance = random.Random(seed)
    cluster = workers(3)
    for name in NAMES:
        labels = {"app": name, "team": chance.choice(TEAMS)}
        status = {"updatedReplicas": 1} if chance.random() < 0.3 else {}
        template = {"metadata": {"labels": labels}}
        if chance.random() < 0.7:
            cluster.deployment(name, ["worker-1"] * 4, template=template, status=status, strategy=ONE_LESS)
        else:
            cluster.stateful_set(name, ["worker-1"] * 4, template=template, status=status)
    for number in range(chance.randint(0, 4)):
        wanted = chance.choice([{"app": chance.choice(NAMES)}, {"team": chance.choice(TEAMS)}, {"controller-revision-hash": "rev1"}])
        cluster.budget(f"budget-{number}", "", desired=1, current=12, labels=wanted)
    return cluster.snapshot()


@pytest.mark.parametrize("seed", range(100))
def test_budgets_and_rolling_neighbours_are_those_that_a_comparison_of_everything_finds(seed: int) -> None:
    snapshot = random_cluster(seed)
    for workload in snapshot.workloads():
        budgets = every_budget_that_selects(workload, snapshot)
        assert workload_budgets.budgets_of(workload, snapshot) == budgets
        reason = disruption_violation(workload, snapshot, allow_downtime=False)
        other = rolling_beside(workload, snapshot)
        assert (reason is None) == (other is None)
        assert other is None or f"also selects pods of {other}, which is being rolled out" in str(reason)


def crowd(size: int) -> ClusterBuilder:
    """A namespace with ``size`` uneven Deployments of four pods, each with a budget of its own."""
    cluster = workers(3)
    for number in range(size):
        name = f"app-{number}"
        labels = {"app": name, "managed-by": "helm"}
        cluster.deployment(name, ["worker-1"] * 4, template={"metadata": {"labels": labels}}, strategy=ONE_LESS)
        cluster.budget(name, name, desired=3, current=4, labels=labels)
    return cluster


def test_selectors_are_compared_in_proportion_to_the_workloads_of_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for size in (20, 40):
        compared = CountedCalls(matches)
        with monkeypatch.context() as patch:
            for module in (label_selector, selector_index, workload_budgets):
                patch.setattr(module, "matches", compared, raising=False)
            report = check_spread(crowd(size).snapshot(), CheckOptions())
        assert report.count("collapsed") == size and all(line.refusal is None for line in report.workloads)
        counts.append(compared.count)
    assert 0 < counts[1] <= 2.2 * counts[0]


def test_each_workload_is_asked_once_whether_it_is_rolled_out_for_all_budgets_that_it_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = CountedCalls(is_rolling)
    cluster = crowd(20)
    cluster.budget("all", "", desired=1, current=80, labels={"managed-by": "helm"})
    monkeypatch.setattr(budget_status, "is_rolling", asked)
    report = check_spread(cluster.snapshot(), CheckOptions())
    assert report.count("collapsed") == 20
    # Once before its own restart, and once for all others.
    assert 0 < asked.count <= 2 * 20
