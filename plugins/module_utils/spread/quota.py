# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What ResourceQuotas leave of a rollout's surge, or of what an evicted pod had (kubernetes ``pkg/quota/v1/evaluator/core/pods.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable

from ..model.objects import Pod, ResourceQuota, Workload
from ..model.quantity import NANO, parse_quantity
from ..model.reasons import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.wire import encode_json
from ..scheduling.resources import quota_amount
from .bounds import rollout_bounds
from .next_pod import next_pod

UNBOUNDED = 2**31
"""The pods that quotas admit which bound nothing of them."""


class SurgeRoom(t.NamedTuple):
    """Surge pods that the namespace admits now, and the quota that bounds them (empty where none does)."""

    pods: int
    bounded_by: str


def surge_room(workload: Workload, snapshot: ClusterSnapshot) -> SurgeRoom:
    """How many pods above the wanted replicas a rollout may make, by the strategy and by the namespace's quotas."""
    surge = rollout_bounds(workload).max_surge
    if surge == 0:
        return SurgeRoom(0, "")
    least = snapshot.once(_Quotas).least(next_pod(workload, snapshot).pod, workload.metadata.namespace)
    return SurgeRoom(max(0, least.pods), least.bounded_by) if least.pods < surge else SurgeRoom(max(0, surge), "")


def overdrawn(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why a pod that goes would not be made again; None where it would.

    Quotas may be lowered below what is used. What is there stays then, but nothing comes in its place.
    """
    return snapshot.once(_Quotas).overdrawn(next_pod(workload, snapshot).pod, workload.metadata.namespace)


class _Quotas:
    """The quotas of a snapshot: each is parsed once, and asked once about all pods that quotas cannot tell apart."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._by_namespace = {name: [_Quota(quota) for quota in quotas] for name, quotas in snapshot.quotas_by_namespace.items()}
        self._least: dict[Hashable, SurgeRoom] = {}
        self._overdrawn: dict[Hashable, t.Optional[Reason]] = {}

    def least(self, pod: Pod, namespace: str) -> SurgeRoom:
        """How many further pods like this one all quotas admit, and the first quota that admits no more."""
        key = namespace, quota_kind(pod)
        if key not in self._least:
            found = SurgeRoom(UNBOUNDED, "")
            usage = _Usage(pod)
            for quota in self._counting(pod, namespace):
                left = quota.pods_left(usage)
                if left < found.pods:
                    found = SurgeRoom(left, quota.name)
            self._least[key] = found
        return self._least[key]

    def overdrawn(self, pod: Pod, namespace: str) -> t.Optional[Reason]:
        """Why no further pod like this one is admitted although none is added; None where one is."""
        key = namespace, quota_kind(pod)
        if key not in self._overdrawn:
            usage = _Usage(pod)
            reasons = (quota.overdrawn(usage) for quota in self._counting(pod, namespace))
            self._overdrawn[key] = next((reason for reason in reasons if reason is not None), None)
        return self._overdrawn[key]

    def _counting(self, pod: Pod, namespace: str) -> t.Iterator[_Quota]:
        return (quota for quota in self._by_namespace.get(namespace, ()) if counts(quota.quota, pod))


class _Quota:
    """A quota; ``left`` of each resource is negative where the quota is overdrawn."""

    def __init__(self, quota: ResourceQuota) -> None:
        self.quota = quota
        self.name = quota.metadata.name
        self._hard = quota.status.hard or quota.spec.hard or {}
        self._left: dict[str, int] = {}

    def pods_left(self, usage: _Usage) -> int:
        """Further pods that the quota admits; UNBOUNDED where it bounds nothing of them."""
        needs = ((name, usage.of(name)) for name in self._hard)
        return min((max(0, self._left_of(name)) // need for name, need in needs if need > 0), default=UNBOUNDED)

    def overdrawn(self, usage: _Usage) -> t.Optional[Reason]:
        """Why no pod comes in the place of one that goes; None where one does."""
        for name in self._hard:
            if usage.of(name) > 0 and self._left_of(name) < 0:
                return Reason("quota", f"ResourceQuota {self.name} is overdrawn ({name}): no pod would come in place of one that goes")
        return None

    def _left_of(self, name: str) -> int:
        left = self._left.get(name)
        if left is None:
            used = (self.quota.status.used or {}).get(name, "0")
            left = self._left[name] = parse_quantity(self._hard[name]) - parse_quantity(used)
        return left


class _Usage:
    """What one pod takes of the resources of quotas, in nano-units."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._known: dict[str, int] = {}

    def of(self, name: str) -> int:
        """What it takes of one resource."""
        usage = self._known.get(name)
        if usage is None:
            usage = self._known[name] = _usage(name, self._pod)
        return usage


def quota_kind(pod: Pod) -> Hashable:
    """Equal for pods that quotas and limit ranges cannot tell apart."""
    spec = pod.spec
    return encode_json((spec.containers, spec.init_containers, spec.resources, spec.overhead, spec.priority_class_name))


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
