# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The PodDisruptionBudgets of a workload, for the rules about them. It has no rule itself."""

from __future__ import annotations

from ...model.api.policy import PodDisruptionBudget
from ...model.api.workload import Workload
from ...model.budgets.budget_index import BudgetIndex
from ...model.snapshot import ClusterSnapshot
from ..rollout import partition, rollout_bounds


def budgets_at_stake(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """Return (namespace, name) of the budgets whose healthy pods a rollout of the workload may reduce for some time."""
    if lowest_ready(workload) >= workload.status.ready_replicas:
        return set()
    return names_of_budgets(workload, snapshot)


def names_of_budgets(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """Return (namespace, name) of the workload's budgets."""
    return {(budget.metadata.namespace, budget.metadata.name) for budget in budgets_of(workload, snapshot)}


def lowest_ready(workload: Workload) -> int:
    """Return the lowest number of ready pods to which the strategy permits a rollout to go, from the pods that are ready now.

    A controller keeps its bound on *available* pods. It removes pods first that are ready and not yet available (minReadySeconds), although
    a budget counts them as healthy.
    """
    status = workload.status
    bounds = rollout_bounds(workload)
    if workload.kind == "StatefulSet":
        replaced = workload.spec.replicas - partition(workload)
        return status.ready_replicas - min(status.ready_replicas, bounds.max_unavailable, max(0, replaced))
    kept = min(status.available_replicas, max(0, workload.spec.replicas - bounds.max_unavailable))
    return min(status.ready_replicas, kept)


def budgets_of(workload: Workload, snapshot: ClusterSnapshot) -> list[PodDisruptionBudget]:
    """Return the budgets that select a present pod of the workload or a pod that its template creates."""
    metadata = workload.metadata
    if metadata.namespace not in snapshot.budgets_by_namespace:
        return []
    # Pods have labels that the template lacks, such as their name or revision. Most pods share one mapping of labels.
    of_pods = {id(pod.metadata.labels): pod.metadata.labels for pod in snapshot.owned_pods(workload)}
    return snapshot.once(BudgetIndex).selecting(metadata.namespace, workload.spec.template.metadata.labels, *of_pods.values())
