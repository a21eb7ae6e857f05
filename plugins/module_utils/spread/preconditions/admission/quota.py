# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a ResourceQuota has too little left for a replacement.

``surge_quota.py`` has the rule for the surge pods of a rollout.
"""

from __future__ import annotations

import typing as t

from ....model.api.pod import Pod
from ....model.api.workload import Workload
from ....model.interning import one_for_each
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ...next_pod.next_pod import next_pod
from .quota_index import QuotaIndex, is_best_effort, usages


def quota_violation(workload: Workload, snapshot: ClusterSnapshot, *, pods: int = 1) -> t.Optional[Reason]:
    """Return the quota that prevents the replacement of ``pods`` pods, one after the other.

    None if it admits all. A quota may be lowered below its use. Existing pods remain then, but no replacement is admitted. A new pod may
    also request more than the old one, for example because a LimitRange gives other defaults now.
    """
    quotas, namespace, pod = snapshot.once(QuotaIndex), workload.metadata.namespace, next_pod(workload, snapshot).pod
    bounds = quotas.bounds(pod, namespace)
    if not bounds:
        return None
    live = (old for old in snapshot.owned_pods(workload) if not old.terminal)
    gone = one_for_each(live, "containers", "init_containers", "resources", "overhead")
    freed = [dict(usages(old, bounds)) if _counted_alike(old, pod) else {} for old in gone]
    lacking: list[tuple[tuple[int, str], str]] = []
    for name, amount in usages(pod, bounds):
        more = amount - min((usages.get(name, 0) for usages in freed), default=amount)
        needed = max(more, pods * more)
        if amount > 0 and bounds[name].least < needed:
            lacking.append((bounds[name].first_below(needed), name))
    if not lacking:
        return None
    (_number, quota), name = min(lacking)
    state = "is overdrawn" if bounds[name].least < 0 else "has too little left for new pods, which request more"
    return Reason("quota", f"ResourceQuota {quota} {state} ({name}): a deleted pod would not be replaced")


def _counted_alike(pod: Pod, other: Pod) -> bool:
    """Return whether the same quotas count both pods."""
    return pod.spec.priority_class_name == other.spec.priority_class_name and is_best_effort(pod) == is_best_effort(other)
