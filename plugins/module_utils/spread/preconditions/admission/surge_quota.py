# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reason why a restart does not help: a ResourceQuota admits no surge pod, and the rollout begins with one.

``surge_capacity`` returns the number of surge pods that the quotas of the namespace admit.
"""

from __future__ import annotations

import typing as t

from ....model.api.namespace import ResourceQuota
from ....model.api.pod import Pod
from ....model.api.workload import Workload
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ...next_pod.next_pod import next_pod
from ...rollout import rollout_bounds, update_strategy_type
from .quota import quota_violation
from .quota_index import Bounds, QuotaIndex, SurgeCapacity, add_bounds, usages


def surge_capacity(workload: Workload, snapshot: ClusterSnapshot) -> SurgeCapacity:
    """Return the surge of a rollout by the strategy and by the namespace's quotas, in pods."""
    surge = rollout_bounds(workload).max_surge
    if surge <= 0:
        return SurgeCapacity(0, "")
    admitted = snapshot.once(QuotaIndex).surge_capacity(next_pod(workload, snapshot).pod, workload.metadata.namespace)
    return admitted if admitted.pods < surge else SurgeCapacity(surge, "")


def surge_quota_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason if the rollout begins with a surge pod and the namespace admits none. None otherwise."""
    surge = surge_capacity(workload, snapshot)
    if surge.pods > 0 or not _needs_surge(workload):
        return None
    namespace = workload.metadata.namespace
    text = f"ResourceQuota {namespace}/{surge.bounded_by}"
    quotas = snapshot.quotas_by_namespace.get(namespace, ())
    quota = next((quota for quota in quotas if quota.metadata.name == surge.bounded_by), None)
    if quota is not None:
        text += _used_up(quota, next_pod(workload, snapshot).pod)
    # If the quota is overdrawn, evicted pods are not replaced either.
    evictions = "" if quota_violation(workload, snapshot) else "; evict_surplus needs none"
    return Reason("quota", f"{text}: no capacity for a surge pod{evictions}")


def _used_up(quota: ResourceQuota, pod: Pod) -> str:
    """Return a text about the first resource for which the quota leaves less than one pod uses; empty if there is none."""
    hard, used = quota.status.hard or quota.spec.hard or {}, quota.status.used or {}
    bounds: Bounds = {}
    add_bounds(bounds, quota, 0)
    lacking = sorted(name for name, amount in usages(pod, bounds) if amount > 0 and bounds[name].least < amount)
    return f" allows {hard[lacking[0]]} {lacking[0]} and {used.get(lacking[0], '0')} are used" if lacking else ""


def _needs_surge(workload: Workload) -> bool:
    """Return whether the rollout can begin only with an additional pod."""
    rolls = workload.kind == "Deployment" and update_strategy_type(workload) == "RollingUpdate"
    return rolls and rollout_bounds(workload).max_unavailable == 0
