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
