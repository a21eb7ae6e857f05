# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Budgets that two rollouts must not take from at a time."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.budget_locks import BudgetLocks, SharedBudgetError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

A, B = (Target("Deployment", "app", name) for name in "ab")
KEEP = frozenset({("app", "keep")})


def test_another_one_waits_until_the_first_has_ended() -> None:
    budgets = BudgetLocks()
    assert budgets.violation(A, KEEP) is None
    budgets.begin(A, KEEP)
    assert budgets.violation(A, KEEP) is None
    assert budgets.violation(B, frozenset({("app", "other")})) is None
    with pytest.raises(SharedBudgetError):
        budgets.violation(B, KEEP)
    budgets.ended(A)
    assert budgets.violation(B, KEEP) is None


def test_what_has_not_ended_in_time_still_holds_its_budget() -> None:
    budgets = BudgetLocks()
    budgets.begin(A, KEEP)
    budgets.left_unfinished(A)
    reason = budgets.violation(B, KEEP)
    assert reason is not None and str(reason).startswith("budget: the move of Deployment app/a, which shares PodDisruptionBudget keep, ")


def test_no_restart_begins_while_the_eviction_of_another_target_on_its_budget_has_no_answer() -> None:
    """The server checks the budget when it carries out the eviction, but it does not check it for a restart."""
    locks = BudgetLocks()
    web, api = Target("Deployment", "app", "web"), Target("Deployment", "app", "api")
    locks.set_unanswered(web, {("app", "shared")})
    found = locks.unanswered_violation(api, {("app", "shared"), ("app", "other")})
    assert found is not None and found.code == "budget" and "PodDisruptionBudget shared" in found.text
    assert locks.unanswered_violation(api, {("app", "other")}) is None
    assert locks.unanswered_violation(web, {("app", "shared")}) is None, "its own eviction does not prevent its restart"
    locks.set_unanswered(web, set())
    assert locks.unanswered_violation(api, {("app", "shared")}) is None
