# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The amounts that the ResourceQuotas of each namespace leave for new pods."""

from __future__ import annotations

import typing as t
from bisect import bisect_right
from collections.abc import Hashable

from ....model.api.namespace import ResourceQuota
from ....model.api.pod import Pod
from ....model.snapshot import ClusterSnapshot
from ....model.values.quantity import NANO, parse_quantity
from ....scheduler.pod_requests import quota_amount
from .pod_resources import resource_names

UNBOUNDED = 2**31
"""The number of pods without a bound by a quota. No namespace has as many pods."""


class SurgeCapacity(t.NamedTuple):
    """The number of surge pods that the namespace admits now, and the quota that bounds them (empty if there is none)."""

    pods: int
    bounded_by: str


class Bound:
    """The bounds of one resource in all quotas that count a pod.

    ``first`` is the number of the first of these quotas, ``name`` its name. ``_lower`` has the quotas that have less left than all previous
    ones. ``_used_up`` has the remaining amount of each of these with its sign changed, so the numbers ascend.
    """

    def __init__(self, number: int, name: str) -> None:
        self.first, self.name = number, name
        self._lower: list[tuple[int, str]] = []
        self._used_up: list[int] = []

    def add(self, left: int, number: int, name: str) -> None:
        """Add a quota with the remaining amount ``left``, which is negative if the quota is overdrawn."""
        if not self._used_up or left < self.least:
            self._lower.append((number, name))
            self._used_up.append(-left)

    @property
    def least(self) -> int:
        """The smallest remaining amount."""
        return -self._used_up[-1]

    def first_below(self, amount: int) -> tuple[int, str]:
        """Return number and name of the first quota with less than ``amount`` left. The amount must be greater than ``least``."""
        return self._lower[bisect_right(self._used_up, -amount)]


Bounds = dict[str, Bound]
"""The bounds of a namespace by resource name, for pods that the same quotas count."""


class QuotaIndex:
    """The quotas of a snapshot.

    Each quota is parsed once for all pods that it counts, and a pod is compared with the smallest remaining amount.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._by_namespace = snapshot.quotas_by_namespace
        self._bounds: dict[Hashable, Bounds] = {}

    def bounds(self, pod: Pod, namespace: str) -> Bounds:
        """Return the bounds by all quotas that count the pod."""
        key = namespace, pod.spec.priority_class_name, is_best_effort(pod)
        known = self._bounds.get(key)
        if known is None:
            known = self._bounds[key] = {}
            for number, quota in enumerate(self._by_namespace.get(namespace, ())):
                if quota_matches_pod(quota, pod):
                    add_bounds(known, quota, number)
        return known

    def surge_capacity(self, pod: Pod, namespace: str) -> SurgeCapacity:
        """Return the number of further equal pods that all quotas admit, and the first quota that rejects one more."""
        bounds = self.bounds(pod, namespace)
        needs = {name: amount for name, amount in usages(pod, bounds) if amount > 0}
        pods = min((max(0, bounds[name].least) // need for name, need in needs.items()), default=UNBOUNDED)
        bounding = [bounds[name].first_below((pods + 1) * need) for name, need in needs.items() if bounds[name].least < (pods + 1) * need]
        return SurgeCapacity(pods, min(bounding)[1] if bounding else "")


def bounds_of(pod: Pod, namespace: str, snapshot: ClusterSnapshot) -> Bounds:
    """Return the bounds by the namespace's quotas that count the pod, by resource."""
    return snapshot.once(QuotaIndex).bounds(pod, namespace)


def add_bounds(bounds: Bounds, quota: ResourceQuota, number: int) -> None:
    """Add the bounds of the quota, which is the quota ``number`` of its namespace."""
    used, name = quota.status.used or {}, quota.metadata.name
    for resource, amount in (quota.status.hard or quota.spec.hard or {}).items():
        if resource not in bounds:
            bounds[resource] = Bound(number, name)
        bounds[resource].add(parse_quantity(amount) - parse_quantity(used.get(resource, "0")), number, name)


def usages(pod: Pod, bounds: Bounds) -> t.Iterator[tuple[str, int]]:
    """Return the pod's use of each bounded resource, in nano-units."""
    names = {"pods", "count/pods"}
    for resource in resource_names(pod):
        names.update((resource, f"requests.{resource}", f"limits.{resource}"))
    return ((name, _usage(name, pod)) for name in names if name in bounds)


def _usage(name: str, pod: Pod) -> int:
    """Return the use of a quota's resource by one pod, in nano-units."""
    if name in ("pods", "count/pods"):
        return NANO
    if name.startswith("limits."):
        return quota_amount(pod, name[len("limits.") :], limits=True)
    return quota_amount(pod, name[len("requests.") :] if name.startswith("requests.") else name, limits=False)


def quota_matches_pod(quota: ResourceQuota, pod: Pod) -> bool:
    """Return whether the quota's scopes select the pod. An unknown scope is assumed to select it, which is the safe result."""
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
        return is_best_effort(pod) == (scope == "BestEffort")
    return scope != "Terminating"  # pods of a workload have no deadline


def is_best_effort(pod: Pod) -> bool:
    """Return whether no container of the pod has requests or limits."""
    parts = [container.resources for container in pod.spec.all_containers] + [pod.spec.resources]
    return not any(part is not None and (part.requests or part.limits) for part in parts)
