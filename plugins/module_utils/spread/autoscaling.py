# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""HorizontalPodAutoscalers that are about to change the number of replicas: what is even now would not stay so."""

from __future__ import annotations

import typing as t

from ..model.objects import Workload
from ..model.reasons import Reason
from ..model.snapshot import ClusterSnapshot


def autoscaling(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Why an autoscaler is about to change the number of replicas, or may be; None where none is."""
    undecodable = snapshot.undecodable_in(workload.metadata.namespace, "HorizontalPodAutoscaler")
    if undecodable is not None:
        return undecodable.reason
    for autoscaler in snapshot.autoscalers_by_namespace.get(workload.metadata.namespace, ()):
        target = autoscaler.spec.scale_target_ref
        if (target.kind, target.name) != (workload.kind, workload.metadata.name):
            continue
        replicas, name = workload.spec.replicas, autoscaler.metadata.name
        low, high = autoscaler.spec.min_replicas or 1, autoscaler.spec.max_replicas
        if not low <= replicas <= high:
            return Reason("autoscaling", f"{replicas} replicas are outside the bounds {low} to {high} of HorizontalPodAutoscaler {name}")
        wanted = autoscaler.status.desired_replicas
        if wanted and wanted != replicas:
            return Reason("autoscaling", f"HorizontalPodAutoscaler {name} is going from {replicas} to {wanted} replicas")
    return None
