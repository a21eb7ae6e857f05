# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every decision of the modules on a small cluster that has one odd object."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.storage import Storage
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.interning import Interner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable, undecodable_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker, check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import decide_eviction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import EVICT_SURPLUS, RestartOptions

from tests.unit.support.cluster import NOW, ClusterBuilder, snapshot_of, struct

_FIELDS = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "Deployment": "deployments",
    "StatefulSet": "stateful_sets",
    "ReplicaSet": "replica_sets",
    "PodDisruptionBudget": "budgets",
    "ResourceQuota": "quotas",
    "HorizontalPodAutoscaler": "autoscalers",
    "Job": "jobs",
    "PersistentVolumeClaim": "claims",
    "LimitRange": "limit_ranges",
    "DeviceClass": "device_classes",
    "Service": "services",
}
_STORAGE = {
    "PersistentVolume": "volumes",
    "StorageClass": "classes",
    "CSINode": "nodes",
    "CSIDriver": "drivers",
    "CSIStorageCapacity": "capacities",
    "VolumeAttachment": "attachments",
}


def decide_beside(resource: Resource, odd: Any, chance: random.Random) -> ClusterSnapshot:
    """Check, restart, evict and rescue on a cluster with the object; returns the cluster."""
    snapshot = _cluster(resource, _interned(odd), chance)
    options = CheckOptions(max_skew=1)
    check_result(check_spread(snapshot, options), options, include_healthy=True)
    checker = WorkloadChecker(snapshot, options)
    for workload in snapshot.workloads():
        line = checker.check(workload)
        decide_restart(line, snapshot, RestartOptions(), now_s=NOW)
        decide_eviction(line, snapshot, ClusterState.of(snapshot), RestartOptions(strategy=EVICT_SURPLUS), now_s=NOW)
    planner = RescuePlanner(snapshot, RescueOptions(), now_s=NOW)
    for pod in snapshot.pods:
        if not pod.spec.node_name:
            planner.plan_rescue(pod, RescueContext())
    return snapshot


def _interned(odd: Any) -> Any:
    """The object as every list and every watch keeps it: the quantities of pods and nodes are checked when they are shared."""
    if isinstance(odd, Pod):
        return Interner().intern_pod(odd)
    return Interner().intern_node(odd) if isinstance(odd, Node) else odd


def _cluster(resource: Resource, odd: Any, chance: random.Random) -> ClusterSnapshot:
    builder = ClusterBuilder()
    for name in ("a", "b"):
        builder.node(name)
    builder.deployment("web", ["a", "a", "a"])
    builder.stateful_set("db", ["b", "b"])
    builder.budget("web", "web", desired=2, current=3)
    pending = {"metadata": {"name": "dns", "namespace": "kube-system", "uid": "dns"}}
    spec = {"priority": 2_000_000_000, "containers": [{"name": "main", "resources": {"requests": {"cpu": "3900m"}}}]}
    builder.pods.append(struct(Pod, {**pending, "spec": spec}))
    parts: dict[str, list[Any]] = {name: list(getattr(builder, name, ())) for name in _FIELDS.values()}
    storage: dict[str, list[Any]] = {name: [] for name in _STORAGE.values()}
    if isinstance(odd, Pod):
        parts["pods"].append(_placed(odd, chance))
    elif not isinstance(odd, Undecodable) and resource.kind in _FIELDS:
        parts[_FIELDS[resource.kind]].append(odd)
    elif not isinstance(odd, Undecodable) and resource.kind in _STORAGE:
        storage[_STORAGE[resource.kind]].append(odd)
    undecodable = undecodable_of(odd)
    return snapshot_of(**parts, storage=Storage(**storage), undecodable=[undecodable] if undecodable is not None else (), read_at_s=NOW)


def _placed(pod: Pod, chance: random.Random) -> Pod:
    """On a node that there is, or on none."""
    return replace(pod, spec=replace(pod.spec, node_name=chance.choice(("a", "b", ""))))
