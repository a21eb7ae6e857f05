# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The evictions that PodDisruptionBudgets allow, alone and together."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import Skipped

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import budget, running
from tests.unit.support.searches import exceeded

WEB = {"app": "web"}


def ledger(*budgets: t.Any, **snapshot: t.Any) -> PdbLedger:
    return PdbLedger(snapshot_of(budgets=budgets, **snapshot))


def code(budgets: PdbLedger, **pod: t.Any) -> str:
    reason = budgets.violation(running("node-1", **{"labels": WEB, **pod}))
    return reason.code if reason is not None else ""


@pytest.mark.parametrize(
    ("allowed", "more", "pod", "expected"),
    [
        (1, {}, {}, ""),
        (0, {}, {}, "budget"),
        (0, {}, {"namespace": "other"}, ""),
        (0, {}, {"labels": {"app": "db"}}, ""),
        (0, {}, {"phase": "Pending"}, ""),
        (0, {}, {"phase": "Succeeded"}, ""),
        (0, {}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, ""),
        # As many are healthy as have to be: one that is not ready goes without being counted.
        (0, {"healthy": 3, "desired": 3}, {"ready": False}, ""),
        (0, {"healthy": 2, "desired": 3}, {"ready": False}, "budget"),
        (0, {"healthy": 0, "desired": 0}, {"ready": False}, "budget"),
        (0, {"healthy": 2, "desired": 3, "policy": "IfHealthyBudget"}, {"ready": False}, "budget"),
        (0, {"healthy": 2, "desired": 3, "policy": "AlwaysAllow"}, {"ready": False}, ""),
        (0, {"healthy": 2, "desired": 3, "policy": "AlwaysAllow"}, {}, "budget"),
        # A budget that its controller has not seen yet allows the eviction only of pods that are not counted.
        (1, {"observed": 1}, {}, "budget"),
        (1, {"observed": 1}, {"ready": False}, ""),
    ],
)
def test_whether_a_pod_may_go_alone(allowed: int, more: t.Any, pod: t.Any, expected: str) -> None:
    assert code(ledger(budget("web", WEB, allowed=allowed, **more)), **pod) == expected


def test_a_pod_with_two_budgets_is_never_evicted() -> None:
    two = ledger(budget("web", WEB, allowed=3), budget("all", {}, allowed=3))
    assert code(two) == "several_budgets"
    assert code(two, ready=False) == "several_budgets"
    assert code(two, phase="Pending") == ""
    assert code(two, labels={"app": "db"}) == ""


@pytest.mark.parametrize(("namespace", "expected"), [("", "budgets_not_readable"), ("app", "budgets_not_readable"), ("other", "")])
def test_what_may_not_be_read_is_no_permission(namespace: str, expected: str) -> None:
    assert code(ledger(skipped=[Skipped("poddisruptionbudgets", namespace, "forbidden")])) == expected


def test_pods_that_may_go_alone_may_not_all_go() -> None:
    budgets = ledger(budget("web", WEB, allowed=2), budget("db", {"app": "db"}, allowed=1))
    web = [running("node-1", labels=WEB) for _number in range(3)]
    others = [running("node-1", labels={"app": "db"}), running("node-1"), running("node-1", labels=WEB, ready=False)]
    assert exceeded(budgets, [*web[:2], *others]) == {}
    assert exceeded(budgets, [*web, *others]) == {"web": 3}


def test_what_one_plan_takes_the_next_one_has_not() -> None:
    budgets = ledger(budget("web", WEB, allowed=2))
    first, second, third = (running("node-1", labels=WEB) for _number in range(3))
    budgets.reserve([first])
    assert budgets.violation(second) is None
    assert exceeded(budgets, [second]) == {} and exceeded(budgets, [second, third]) == {"web": 2}
    budgets.reserve([second, running("node-1", labels=WEB, ready=False)])
    assert budgets.violation(third) is not None
    assert budgets.disruptions_left(("app", "web")) == 0


def test_labels_that_pods_share_are_compared_once_and_not_mixed_up() -> None:
    budgets = ledger(budget("web", WEB, allowed=0))
    for _number in range(50):
        # Labels of pods that are gone leave their place in memory to others.
        assert code(budgets, labels={"app": "web"}) == "budget"
        assert code(budgets, labels={"app": "db"}) == ""


def test_budgets_that_may_not_be_read_name_the_verbs_to_grant() -> None:
    unread = ledger(skipped=[Skipped("poddisruptionbudgets", "", "forbidden")])
    reason = unread.violation(running("node-1", labels=WEB))
    assert reason is not None and "PodDisruptionBudgets in all namespaces " in reason.text
    assert reason.text.endswith("list and watch on poddisruptionbudgets.policy")
