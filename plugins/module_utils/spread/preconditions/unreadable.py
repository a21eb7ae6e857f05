# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: an object that may forbid the restart cannot be read or decoded."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from .undecodable_budget import undecodable_budget_violation


def unreadable_violation(workload: Workload, snapshot: ClusterSnapshot, *, budgets: bool) -> t.Optional[Reason]:
    """Return the reason if an object that may forbid the restart cannot be read or decoded.

    None otherwise. With ``budgets``, PodDisruptionBudgets are included.
    """
    needed = {"namespaces", "pods", "persistentvolumeclaims", "resourcequotas", "limitranges"} | (
        {"replicasets"} if workload.kind == "Deployment" else set()
    )
    if budgets:
        needed.add("poddisruptionbudgets")
    for entry in snapshot.skipped:
        if entry.namespace == workload.metadata.namespace and entry.resource in needed:
            return Reason("unreadable", entry.reason)
    return _undecodable_violation(workload, snapshot) or (undecodable_budget_violation(workload, snapshot) if budgets else None)


def _undecodable_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason of an undecodable object that may forbid the restart. None if there is none."""
    namespace = workload.metadata.namespace
    found = snapshot.undecodable_in(namespace, "ResourceQuota", "LimitRange") or snapshot.undecodable_revision(workload)
    found = found or snapshot.undecodable_named("Namespace", "", namespace)
    for volume in workload.spec.template.spec.volumes or ():
        claim = volume.persistent_volume_claim
        if claim is not None:
            found = found or snapshot.undecodable_named("PersistentVolumeClaim", namespace, claim.claim_name)
    return found.reason if found is not None else None
