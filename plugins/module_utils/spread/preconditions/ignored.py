# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: an annotation of the workload or of its namespace leaves the workload out of the check."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot

SPREAD_ANNOTATION = "kube-scheduling.onprem/spread"


def ignored_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the annotation that leaves the workload out. None if neither the workload nor its namespace has it."""
    namespace = snapshot.namespaces.get(workload.metadata.namespace)
    for owner, metadata in (("workload", workload.metadata), ("namespace", namespace.metadata if namespace is not None else None)):
        if metadata is not None and (metadata.annotations or {}).get(SPREAD_ANNOTATION) == "ignore":
            return Reason("ignored", f"the {owner} has the annotation {SPREAD_ANNOTATION}: ignore")
    return None
