# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The comparison of a plan with its run finds each difference, on small results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

from tests.integration.prediction.plans import ComparedAction, PlanResult, PlanTally, compare_actions, disagreements

HOST = "kubernetes.io/hostname"
ENDS = "only if Deployment shop/a ends with n1=1, n2=1"
OTHER = "only if Deployment shop/a ends with n1=2"
BUDGET = "only if PodDisruptionBudget shop/a allows a disruption within wait_timeout"


def target(name: str) -> Target:
    return Target("Deployment", "shop", name)


def entry(action: str, *, condition: str = "", message: str = "uneven", after: Mapping[str, int] | None = None) -> dict[str, Any]:
    text = f"{message}; {condition}" if condition else message
    return {"action": action, "reason": "code", "message": text, "condition": condition, "after": {HOST: after} if after else {}}


def compared(planned: str, action: str, *, condition: str = "", after: Mapping[str, int] | None = None) -> list[ComparedAction]:
    """The workload ``a``, which ends with these replicas, and ``b``."""
    plan = {target("a"): entry("would_restart"), target("b"): entry(planned, condition=condition)}
    run = {target("a"): entry("restarted", after=after or {"n2": 1, "n1": 1, "n3": 0}), target("b"): entry(action)}
    return compare_actions(plan, run, [target("a")], [target("a")])


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (ENDS, True),
        (OTHER, False),
        (f"{OTHER} or Deployment shop/a ends with n1=1, n2=1", True),
        (ENDS.replace("only if", "unless"), False),
        (OTHER.replace("only if", "unless"), True),
        ("only if Deployment shop/a is not moved", False),
        ("only if Deployment shop/b is not moved", True),
        ("only if Deployment shop/b ends with n1=1, n2=1", False),
        (BUDGET, None),
        ("in 4 of 8 simulations of the earlier actions (Deployment shop/a): plan again after them", None),
        ("", None),
    ],
)
def test_the_replicas_of_the_run_show_whether_the_condition_is_true(condition: str, holds: bool | None) -> None:
    assert compared("would_restart_if", "skipped", condition=condition)[1].holds is holds


@pytest.mark.parametrize(
    ("planned", "action", "condition", "agrees"),
    [
        ("would_restart", "restarted", "", True),
        ("would_restart", "skipped", "", False),
        ("would_evict", "restarted", "", False),
        ("skipped", "skipped", "", True),
        ("would_restart_if", "restarted", ENDS, True),
        ("would_restart_if", "skipped", ENDS, False),
        ("would_restart_if", "evicted", ENDS, False),
        ("would_restart_if", "restarted", OTHER, False),
        ("would_restart_if", "skipped", OTHER, True),
        ("would_restart_if", "evicted", OTHER, True),
        ("would_restart_if", "failed", OTHER, False),
        ("would_evict_if", "evicted", OTHER, False),
        ("would_evict_if", "evicted", BUDGET, True),
        ("would_evict_if", "skipped", BUDGET, True),
    ],
)
def test_a_conditional_action_is_made_exactly_if_its_condition_is_true(planned: str, action: str, condition: str, agrees: bool) -> None:
    first, second = compared(planned, action, condition=condition)
    assert first.agrees and second.agrees is agrees
    assert second.has_equal_text, "the condition is no difference of the messages"


def test_another_order_is_a_disagreement() -> None:
    a, b, c = (target(name) for name in "abc")
    plan, run = ({one: entry(action) for one in (a, b, c)} for action in ("would_restart", "restarted"))
    assert [one.agrees for one in compare_actions(plan, run, [b, a, c], [a, b, c])] == [False, False, True]
    run[b] = entry("skipped")
    assert [one.agrees for one in compare_actions(plan, run, [b, a, c], [a, c])] == [True, False, True]


def test_another_message_is_counted_and_described() -> None:
    plan, run = {target("a"): entry("skipped", message="full")}, {target("a"): entry("skipped", message="even")}
    result = PlanResult(7, 3, "strategy auto", 1.0, [*compare_actions(plan, run, [], []), *compared("would_restart", "skipped")])
    tally = PlanTally([result])
    assert (tally.agreeing, tally.made, tally.equal_texts, tally.equal_text_share) == (2, 2, 1, 0.5)
    assert [one.split(",")[0] for one in disagreements([result])] == [f"PLAN_SEEDS=7: Deployment shop/{name}" for name in "ab"]
