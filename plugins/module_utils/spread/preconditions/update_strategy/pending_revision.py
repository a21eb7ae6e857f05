# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal of evictions: the StatefulSet has a new revision that its update strategy holds back."""

from __future__ import annotations

import typing as t

from ....model.api.workload import Workload
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ...rollout import partition, update_strategy_type


def pending_revision_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why an evicted pod would get another revision. None if it would keep its revision."""
    if not _has_pending_revision(workload, snapshot):
        return None
    text = f"{workload} has a new revision that its update strategy holds back: an evicted pod would get the new revision"
    return Reason("pending_revision", text)


def _has_pending_revision(workload: Workload, snapshot: ClusterSnapshot) -> bool:
    if workload.kind != "StatefulSet":
        return False
    if update_strategy_type(workload) == "OnDelete":
        return bool(snapshot.outdated_pods(workload))
    return partition(workload) > 0 and workload.status.current_revision != workload.status.update_revision
