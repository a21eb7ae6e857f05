# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What forbids a restart, whatever it would gain.

A rollout bypasses PodDisruptionBudgets, so they are kept here.
"""

from __future__ import annotations

import typing as t

from ..model.api.policy import PodDisruptionBudget
from ..model.api.workload import Workload
from ..model.messages import pluralize
from ..model.pod_template import pod_of_workload
from ..model.reason import Reason
from ..model.selectors.budget_index import BudgetIndex
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import UNDECODABLE
from .admission import not_admitted
from .bounds import invalid_bound, partition, rollout_bounds, update_strategy_type
from .local_data import local_data
from .next_pod import next_pod
from .quota import overdrawn
from .rolling import rolling
from .rollout_status import is_rolling
from .unhealthy import unhealthy

SINGLE_WRITER_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def refusal(workload: Workload, snapshot: ClusterSnapshot, *, allow_downtime: bool) -> t.Optional[Reason]:
    """Why the workload must not be restarted now; None where nothing forbids it."""
    forbidden = immovable(workload, snapshot) or unreadable(workload, snapshot, budgets=not allow_downtime)
    if forbidden is not None:
        return forbidden
    return (
        rolling(workload, snapshot) or unhealthy(workload, snapshot) or harm_of_rollout(workload, snapshot, allow_downtime=allow_downtime)
    )


def harm_of_rollout(workload: Workload, snapshot: ClusterSnapshot, *, allow_downtime: bool) -> t.Optional[Reason]:
    """Why a rollout with the workload's replicas and strategy would take too much away, or move nothing; None where it would not."""
    if workload.spec.replicas and partition(workload) >= workload.spec.replicas:
        return Reason("partition", f"partition {partition(workload)} of {workload} keeps all {workload.spec.replicas} replicas as they are")
    return (
        shared_volume(workload, snapshot)
        or local_data(workload, snapshot)
        or not_admitted(workload, snapshot)
        or overdrawn(workload, snapshot, pods=workload.spec.replicas - partition(workload))
        or (None if allow_downtime else _downtime(workload, snapshot))
    )


def immovable(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why no rollout of the workload would go on; None where one would."""
    forbidden = ending(workload, snapshot)
    if forbidden is not None:
        return forbidden
    if workload.spec.paused:
        return Reason("paused", f"{workload} is paused; resume its rollout first, or use strategy evict_surplus")
    invalid = invalid_bound(workload)
    if invalid:
        return Reason("invalid_strategy", f"{invalid} of {workload} is no percentage that its controller can read; correct it")
    if update_strategy_type(workload) == "OnDelete":
        return Reason("on_delete", f"{workload} replaces its pods only when they are deleted; use strategy evict_surplus")
    return None


def ending(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why the workload gets no new pods any more; None where it does."""
    namespace = snapshot.namespaces.get(workload.metadata.namespace)
    if namespace is not None and namespace.status.phase == "Terminating":
        return Reason("namespace_terminating", f"namespace {workload.metadata.namespace} is being deleted")
    if workload.metadata.deletion_timestamp is not None:
        return Reason("terminating", f"{workload} is being deleted")
    return None


def unreadable(workload: Workload, snapshot: ClusterSnapshot, *, budgets: bool) -> t.Optional[Reason]:
    """What may not be read may forbid the restart: that is no permission. ``budgets``: whether they count."""
    needed = {"pods", "persistentvolumeclaims", "resourcequotas", "limitranges"} | (
        {"replicasets"} if workload.kind == "Deployment" else set()
    )
    if budgets:
        needed.add("poddisruptionbudgets")
    for entry in snapshot.skipped:
        if entry.namespace == workload.metadata.namespace and entry.resource in needed:
            return Reason("unreadable", entry.reason)
    return _undecodable(workload, snapshot) or (undecodable_budget(workload, snapshot) if budgets else None)


def _undecodable(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """An object that could not be decoded and may forbid the restart."""
    namespace = workload.metadata.namespace
    found = snapshot.undecodable_in(namespace, "ResourceQuota", "LimitRange") or snapshot.undecodable_revision(workload)
    found = found or snapshot.undecodable_named("Namespace", "", namespace)
    for volume in workload.spec.template.spec.volumes or ():
        claim = volume.persistent_volume_claim
        if claim is not None:
            found = found or snapshot.undecodable_named("PersistentVolumeClaim", namespace, claim.claim_name)
    return found.reason if found is not None else None


def undecodable_budget(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why a PodDisruptionBudget that could not be decoded protects the workload; None where none may select its pods."""
    pods = (pod_of_workload(workload), *snapshot.owned_pods(workload)) if snapshot.undecodable_of("PodDisruptionBudget") else ()
    found = next((one for one in map(snapshot.undecodable_budget, pods) if one is not None), None)
    if found is None:
        return None
    return Reason(UNDECODABLE, f"{found.text}; it protects every pod that it may select, such as those of {workload}")


def budgets_at_stake(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """(namespace, name) of the budgets from which a rollout of the workload may take healthy pods away for a while."""
    if lowest_ready(workload) >= workload.status.ready_replicas:
        return set()
    return names_of_budgets(workload, snapshot)


def names_of_budgets(workload: Workload, snapshot: ClusterSnapshot) -> set[tuple[str, str]]:
    """(namespace, name) of the workload's budgets."""
    return {(budget.metadata.namespace, budget.metadata.name) for budget in budgets_of(workload, snapshot)}


def shared_volume(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why no replica can move to another node; None where one can."""
    claim = shared_single_writer_claim(workload, snapshot)
    if not claim:
        return None
    return Reason("shared_rwo_volume", f"the replicas of {workload} share the claim {claim}, which only one node can mount")


def shared_single_writer_claim(workload: Workload, snapshot: ClusterSnapshot) -> str:
    """The claim that all replicas share although one node at a time can mount it; empty where there is none.

    The scheduler does not know this: new pods on another node would wait for the volume of the old ones for ever.
    """
    # The volume of a claim template takes the place of the template's volume with its name.
    own = {template.metadata.name for template in workload.spec.volume_claim_templates or ()}
    specs = (workload.spec.template.spec, next_pod(workload, snapshot).pod.spec)
    for volume in (volume for spec in specs for volume in spec.volumes or ()):
        if volume.persistent_volume_claim is None or volume.name in own:
            continue
        name = volume.persistent_volume_claim.claim_name
        claim = snapshot.claims.get((workload.metadata.namespace, name))
        modes = (claim.spec.access_modes if claim is not None else None) or ()
        if modes and all(mode in SINGLE_WRITER_MODES for mode in modes):
            return name
    return ""


def _downtime(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Whether the strategy may take more ready pods away than one has to stay and the budgets allow."""
    ready, lowest = workload.status.ready_replicas, lowest_ready(workload)
    loss = ready - lowest
    strategy = update_strategy_type(workload)
    if loss <= 0 and strategy != "Recreate":
        return None
    advice = "use strategy evict_surplus, which moves one pod at a time, or restart it by name with allow_downtime"
    if lowest < 1:
        return Reason("downtime", f"the {strategy} strategy of {workload} may leave no ready pod; {advice}")
    for budget in budgets_of(workload, snapshot):
        unsure = _unsure(budget, workload, snapshot)
        if unsure:
            return Reason("budget", f"PodDisruptionBudget {budget.metadata.name} {unsure}")
        status = budget.status
        left = status.current_healthy - loss
        if left < status.desired_healthy:
            said = (
                f"may leave {pluralize(left, 'healthy pod')}, PodDisruptionBudget {budget.metadata.name} asks for {status.desired_healthy}"
            )
            if status.desired_healthy >= status.current_healthy:  # an eviction would be turned down as well
                advice = "let the strategy bring new pods first (maxUnavailable 0), relax the budget, or restart with allow_downtime"
            return Reason("budget", f"a rollout of {workload} {said}; {advice}")
    return None


def _unsure(budget: PodDisruptionBudget, workload: Workload, snapshot: ClusterSnapshot) -> str:
    """Why what the budget's status says of healthy pods does not hold; empty where it does."""
    status = budget.status
    if status.observed_generation < budget.metadata.generation:
        return "was changed, and its controller has not worked out yet what it asks for; try again in a moment"
    failed = next((c for c in status.conditions or () if c.type == "DisruptionAllowed" and c.reason == "SyncFailed"), None)
    if failed is not None:
        return f"cannot be worked out by its controller: {failed.message}"
    for other in snapshot.once(_rolling_workloads).get(id(budget), ()):
        if other.metadata.uid != workload.metadata.uid:
            return f"is also that of {other}, which is being rolled out; wait for its end"
    return ""


def _rolling_workloads(snapshot: ClusterSnapshot) -> dict[int, list[Workload]]:
    """The workloads that are being rolled out, by the ``id`` of each of their budgets."""
    found: dict[int, list[Workload]] = {}
    for namespace in snapshot.budgets_by_namespace:
        for workload in snapshot.workloads_by_namespace.get(namespace, ()):
            if is_rolling(workload, snapshot):
                for budget in budgets_of(workload, snapshot):
                    found.setdefault(id(budget), []).append(workload)
    return found


def lowest_ready(workload: Workload) -> int:
    """The lowest number of ready pods that the strategy lets a rollout come down to, from what is ready now.

    A controller keeps its bound on *available* pods. Those that are ready and not yet available (minReadySeconds) it takes first, though
    for a budget they are healthy.
    """
    status = workload.status
    bounds = rollout_bounds(workload)
    if workload.kind == "StatefulSet":
        replaced = workload.spec.replicas - partition(workload)
        return status.ready_replicas - min(status.ready_replicas, bounds.max_unavailable, max(0, replaced))
    kept = min(status.available_replicas, max(0, workload.spec.replicas - bounds.max_unavailable))
    return min(status.ready_replicas, kept)


def budgets_of(workload: Workload, snapshot: ClusterSnapshot) -> list[PodDisruptionBudget]:
    """The budgets whose selector takes in a pod of the workload, or those that its template would make."""
    metadata = workload.metadata
    if metadata.namespace not in snapshot.budgets_by_namespace:
        return []
    # Pods have labels that the template lacks, such as their name or revision; most pods share one mapping of labels.
    of_pods = {id(pod.metadata.labels): pod.metadata.labels for pod in snapshot.owned_pods(workload)}
    return snapshot.once(BudgetIndex).selecting(metadata.namespace, workload.spec.template.metadata.labels, *of_pods.values())
