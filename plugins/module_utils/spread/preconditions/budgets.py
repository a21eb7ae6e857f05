# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The PodDisruptionBudgets of a workload. A rollout bypasses them, so they are checked here."""

from __future__ import annotations

import typing as t

from ...model.api.policy import PodDisruptionBudget
from ...model.api.workload import Workload
from ...model.budgets.budget_index import BudgetIndex
from ...model.pod_template import pod_of_workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import UNDECODABLE
from ..rollout import is_rolling, partition, rollout_bounds


def undecodable_budget_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the undecodable PodDisruptionBudget that may protect the workload. None if no such budget may select its pods."""
    pods = (pod_of_workload(workload), *snapshot.owned_pods(workload)) if snapshot.undecodable_of("PodDisruptionBudget") else ()
    found = next((one for one in map(snapshot.undecodable_budget, pods) if one is not None), None)
    if found is None:
        return None
    return Reason(UNDECODABLE, f"{found.text}; it protects every pod that it may select, such as those of {workload}")


def budgets_at_stake(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """Return (namespace, name) of the budgets whose healthy pods a rollout of the workload may reduce for some time."""
    if lowest_ready(workload) >= workload.status.ready_replicas:
        return set()
    return names_of_budgets(workload, snapshot)


def names_of_budgets(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """Return (namespace, name) of the workload's budgets."""
    return {(budget.metadata.namespace, budget.metadata.name) for budget in budgets_of(workload, snapshot)}


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
