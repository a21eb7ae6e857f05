# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: a PodDisruptionBudget that may protect the workload cannot be decoded."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.pod_template import pod_of_workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import UNDECODABLE


def undecodable_budget_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the undecodable PodDisruptionBudget that may protect the workload. None if no such budget may select its pods."""
    pods = (pod_of_workload(workload), *snapshot.owned_pods(workload)) if snapshot.undecodable_of("PodDisruptionBudget") else ()
    found = next((one for one in map(snapshot.undecodable_budget, pods) if one is not None), None)
    if found is None:
        return None
    return Reason(UNDECODABLE, f"{found.text}; it protects every pod that it may select, such as those of {workload}")
