# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: containers wait with a lasting error, or no replica is ready.

Pods on a node that is not ready are ignored: their state is outdated, and a restart may help.
"""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..stuck_pods import LASTING_REASONS, is_on_lost_node, unready_message, waiting_container

UNHEALTHY_PODS = "unhealthy_pods"
NO_READY_REPLICA = "no_ready_replica"

FIRST_FAILURES = frozenset({"ErrImagePull", "RegistryUnavailable"})
"""Reasons of a first failure. The kubelet tries again or sets ImagePullBackOff afterwards. They forbid a restart but do not end a wait."""


def unhealthy_pods_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason why the pods of the current revision forbid a restart. None if they do not."""
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    waiting = waiting_container((pod for pod in pods if not is_on_lost_node(pod, snapshot)), LASTING_REASONS | FIRST_FAILURES)
    if waiting:
        return Reason(UNHEALTHY_PODS, f"{waiting}; a restart of {workload} or an eviction of its pods would not change that")
    if not workload.spec.replicas or any(pod.ready for pod in pods):
        return None
    # A pod without a node may wait for the capacity of a lost node.
    counted = [pod for pod in pods if pod.spec.node_name and not is_on_lost_node(pod, snapshot)]
    if not counted and any(is_on_lost_node(pod, snapshot) for pod in pods):
        return None
    cause = unready_message(counted or pods)
    text = f"none of the {workload.spec.replicas} replicas of {workload} is ready" + (f": {cause}" if cause else "")
    return Reason(NO_READY_REPLICA, f"{text}; a restart is refused until one is")
