# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``budgets``: the scheduler's preemption deletes no pod that a PodDisruptionBudget protects.

kube-scheduler sends the number of budget violations for each candidate node, and deletes pods only on the nodes of the answer
(``callExtenders`` in kube-scheduler's preemption.go).
"""

from __future__ import annotations

import typing as t

from ....plugins.module_utils.model.codec import Struct
from ...common.kinds import whole
from ..interface import Agent, Judgement, NodeView, PodView, Victims


class BudgetsArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``max_violations``: the number of violations that preemption may cause on a node."""

    max_violations: t.Annotated[int, whole(0, 2**31)] = 0


class Budgets(Agent):
    """Rejects the nodes on which preemption would violate PodDisruptionBudgets. It takes no part in scores."""

    name = "budgets"
    args_type = BudgetsArgs
    can_score = False
    can_preempt = True

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return no score: budgets matter for preemption only."""
        return Judgement(None, explanation="takes part in preemption only")

    def preempt_violation(self, victims: Victims) -> str:
        """Return a reason if the deletion of the victims would violate more budgets than allowed."""
        if victims.budget_violations <= self.args.max_violations:
            return ""
        return (
            f"preemption would delete {len(victims.pod_uids)} pods and violate PodDisruptionBudgets"
            f" {victims.budget_violations} times, and max_violations is {self.args.max_violations}"
        )
