# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods of a node with the data for the search for victims; they are stored with the node while it does not change."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...model.api.pod import Pod, mounts_claims
from ...model.reason import Reason
from ...model.values.timestamps import read_time
from ...scheduler.node_info import NodeInfo, PodLoad
from ...scheduler.pod_requests import CPU
from ..critical import effective_priority, is_critical_or_system
from ..eviction_rules.bare_pod import bare_pod_violation
from ..eviction_rules.daemon_set import daemon_set_violation
from ..eviction_rules.grace_period import grace_period_violation
from ..eviction_rules.local_storage import local_storage_violation
from ..eviction_rules.not_on_node import not_on_node_violation
from ..eviction_rules.safe_to_evict import safe_to_evict_violation
from ..eviction_rules.static_pod import static_pod_violation
from ..eviction_rules.terminating import terminating_violation
from ..eviction_rules.undecodable import undecodable_violation
from ..options import RescueOptions
from ..pdb_ledger import budget_status_key
from .node_pod import NodePod
from .pod_traits import is_in_gang


def node_pod_of(pod: Pod, load: PodLoad, options: RescueOptions) -> NodePod:
    """Return the data of the pod that count with these options."""
    metadata = pod.metadata
    controller = metadata.controller
    return NodePod(
        pod,
        load,
        effective_priority(pod, options),
        is_critical_or_system(pod, options),
        fixed_violation(pod),
        options_violation(pod, options),
        controller.uid if controller is not None else "",
        pod.ready and not pod.terminating and not pod.terminal,
        -int(read_time(metadata.creation_timestamp) or 0),
        (metadata.namespace, metadata.name),
        is_in_gang(pod),
        controller is not None and controller.kind == "Job",
        mounts_claims(pod),
        budget_status_key(pod),
    )


def fixed_violation(pod: Pod) -> t.Optional[Reason]:
    """Return the first reason that forbids the eviction of the pod and that no option changes. Return None if there is none."""
    return (
        undecodable_violation(pod)
        or not_on_node_violation(pod)
        or terminating_violation(pod)
        or static_pod_violation(pod)
        or daemon_set_violation(pod)
    )


def options_violation(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    """Return the first reason of the pod's annotations or of these options that forbids its eviction. Return None if there is none."""
    return (
        safe_to_evict_violation(pod)
        or bare_pod_violation(pod, options)
        or local_storage_violation(pod, options)
        or grace_period_violation(pod, options)
    )


class NodePods(t.NamedTuple):
    """The pods bound to a node.

    ``evictable``: the pods without a fixed violation and without an options violation; the lowest priority comes first, then the least cpu.
    """

    options: RescueOptions
    all_pods: tuple[NodePod, ...]
    evictable: tuple[NodePod, ...]


def pods_of_node(info: NodeInfo, options: RescueOptions) -> NodePods:
    """Return the pods of the node with these options. They are stored with the node while nothing changes on it.

    ``max_victims`` does not affect the result.
    """
    noted = info.planner_cache
    if isinstance(noted, NodePods) and _protect_the_same(noted.options, options):
        return noted
    name = info.node.metadata.name
    everybody = tuple(node_pod_of(pod, load, options) for pod, load in info.pods.values() if pod.spec.node_name == name)
    movable = [node_pod for node_pod in everybody if node_pod.fixed_violation is None and node_pod.options_violation is None]
    movable.sort(key=lambda node_pod: (node_pod.priority, node_pod.load.requests.get(CPU, 0)))
    found = info.planner_cache = NodePods(options, everybody, tuple(movable))
    return found


def _protect_the_same(some: RescueOptions, others: RescueOptions) -> bool:
    return some is others or some == others or replace(some, max_victims=others.max_victims) == others
