# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the status of a PodDisruptionBudget is not reliable about healthy pods."""

from __future__ import annotations

import typing as t

from ...model.api.policy import PodDisruptionBudget
from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..rollout import is_rolling
from .workload_budgets import budgets_of


def budget_status_violation(budget: PodDisruptionBudget, workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the budget's status is not reliable about healthy pods. None if it is reliable."""
    name = f"PodDisruptionBudget {budget.metadata.name}"
    if not budget.is_observed:
        return Reason("budget", f"{name} was changed, and its controller has not computed its status yet; try again in a moment")
    if budget.sync_failure is not None:
        return Reason("budget", f"the controller of {name} cannot compute its status: {budget.sync_failure.message}")
    for other in snapshot.once(_rolling_workloads).get(id(budget), ()):
        if other.metadata.uid != workload.metadata.uid:
            return Reason("budget", f"{name} also selects pods of {other}, which is being rolled out; wait for its end")
    return None


def _rolling_workloads(snapshot: ClusterSnapshot) -> dict[int, list[Workload]]:
    """Return the workloads with a rollout in progress, by the ``id`` of each of their budgets."""
    found: dict[int, list[Workload]] = {}
    for namespace in snapshot.budgets_by_namespace:
        for workload in snapshot.workloads_by_namespace.get(namespace, ()):
            if is_rolling(workload, snapshot):
                for budget in budgets_of(workload, snapshot):
                    found.setdefault(id(budget), []).append(workload)
    return found
