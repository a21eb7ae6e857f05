# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reason why a restart or an eviction does not help: an autoscaler changes the number of replicas, or may change it."""

from __future__ import annotations

import typing as t

from ...model.api.meta import WORKLOAD_GROUPS, group_of
from ...model.api.workload import HorizontalPodAutoscaler, Workload
from ...model.messages import pluralize
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot


def autoscaling_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why an autoscaler changes the number of replicas, or may change it. None if there is no such autoscaler."""
    undecodable = snapshot.undecodable_in(workload.metadata.namespace, "HorizontalPodAutoscaler")
    if undecodable is not None:
        return undecodable.reason
    target = workload.metadata.namespace, workload.kind, workload.metadata.name
    for autoscaler in snapshot.once(_by_target).get(target, ()):
        replicas, name = workload.spec.replicas, autoscaler.metadata.name
        low, high = autoscaler.spec.min_replicas or 1, autoscaler.spec.max_replicas
        if not low <= replicas <= high:
            return Reason("autoscaling", f"{replicas} replicas are outside the bounds {low} to {high} of HorizontalPodAutoscaler {name}")
        wanted = autoscaler.wanted_replicas
        if wanted and wanted != replicas:
            return Reason("autoscaling", f"HorizontalPodAutoscaler {name} is scaling it from {replicas} to {pluralize(wanted, 'replica')}")
    return None


def _by_target(snapshot: ClusterSnapshot) -> dict[tuple[str, str, str], list[HorizontalPodAutoscaler]]:
    """Return the autoscalers by namespace, kind and name of the workload that they scale."""
    found: dict[tuple[str, str, str], list[HorizontalPodAutoscaler]] = {}
    for namespace, autoscalers in snapshot.autoscalers_by_namespace.items():
        for autoscaler in autoscalers:
            target = autoscaler.spec.scale_target_ref
            if group_of(target.api_version) not in WORKLOAD_GROUPS:
                continue  # a kind of the same name in another API group
            found.setdefault((namespace, target.kind, target.name), []).append(autoscaler)
    return found
