# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What ResourceQuotas leave of a rollout's surge, or of what an evicted pod had (kubernetes ``pkg/quota/v1/evaluator/core/pods.go``)."""

from __future__ import annotations

import typing as t

from ..model.objects import Pod, ResourceQuota, Workload
from ..model.quantity import NANO, parse_quantity
from ..model.reasons import Reason
from ..model.snapshot import ClusterSnapshot
from ..scheduling.resources import quota_amount
from .bounds import rollout_bounds
from .next_pod import next_pod


class SurgeRoom(t.NamedTuple):
    """Surge pods that the namespace admits now, and the quota that bounds them (empty where none does)."""

    pods: int
    bounded_by: str


def surge_room(workload: Workload, snapshot: ClusterSnapshot) -> SurgeRoom:
    """How many pods above the wanted replicas a rollout may make, by the strategy and by the namespace's quotas."""
    room = rollout_bounds(workload).max_surge
    if room == 0:
        return SurgeRoom(0, "")
    pod = next_pod(workload, snapshot).pod
    bounded_by = ""
    for quota in snapshot.quotas_by_namespace.get(workload.metadata.namespace, ()):
        if not counts(quota, pod):
            continue
        left = _pods_left(quota, pod)
        if left < room:
            room, bounded_by = left, quota.metadata.name
    return SurgeRoom(max(0, room), bounded_by)


def overdrawn(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why a pod that goes would not be made again; None where it would.

    Quotas may be lowered below what is used. What is there stays then, but nothing comes in its place.
    """
    pod = next_pod(workload, snapshot).pod
    for quota in snapshot.quotas_by_namespace.get(workload.metadata.namespace, ()):
        used = quota.status.used or {}
        for name, hard in (quota.status.hard or quota.spec.hard or {}).items():
            if counts(quota, pod) and _usage(name, pod) > 0 and parse_quantity(used.get(name, "0")) > parse_quantity(hard):
                text = f"ResourceQuota {quota.metadata.name} is overdrawn ({name}): no pod would come in place of one that goes"
                return Reason("quota", text)
    return None


def _pods_left(quota: ResourceQuota, pod: Pod) -> int:
    """Further pods like this one that the quota admits."""
    used = quota.status.used or {}
    left: t.Optional[int] = None
    for name, hard in (quota.status.hard or quota.spec.hard or {}).items():
        need = _usage(name, pod)
        if need <= 0:
            continue
        room = max(0, parse_quantity(hard) - parse_quantity(used.get(name, "0"))) // need
        left = room if left is None else min(left, room)
    # A quota that bounds nothing of this pod leaves any number.
    return 2**31 if left is None else left


def _usage(name: str, pod: Pod) -> int:
    """What one pod takes of a quota's resource, in nano-units."""
    if name in ("pods", "count/pods"):
        return NANO
    if name.startswith("limits."):
        return quota_amount(pod, name[len("limits.") :], limits=True)
    return quota_amount(pod, name[len("requests.") :] if name.startswith("requests.") else name, limits=False)


def counts(quota: ResourceQuota, pod: Pod) -> bool:
    """Whether the quota's scopes take in the pod; a scope that is not known here is taken to (the careful answer)."""
    if not all(_in_scope(scope, pod) for scope in quota.spec.scopes or ()):
        return False
    selector = quota.spec.scope_selector
    for requirement in (selector.match_expressions if selector is not None else None) or ():
        if requirement.scope_name == "PriorityClass":
            chosen = pod.spec.priority_class_name in (requirement.values or ())
            held = {"In": chosen, "NotIn": not chosen, "Exists": bool(pod.spec.priority_class_name)}
            if not held.get(requirement.operator, not pod.spec.priority_class_name):
                return False
        elif not _in_scope(requirement.scope_name, pod):
            return False
    return True


def _in_scope(scope: str, pod: Pod) -> bool:
    if scope in ("BestEffort", "NotBestEffort"):
        return _best_effort(pod) == (scope == "BestEffort")
    return scope != "Terminating"  # pods of a workload have no deadline


def _best_effort(pod: Pod) -> bool:
    parts = [container.resources for container in pod.spec.all_containers] + [pod.spec.resources]
    return not any(part is not None and (part.requests or part.limits) for part in parts)
