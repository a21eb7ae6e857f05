# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: no replica is ready.

Replicas of which all are on nodes that are not ready are no reason: a restart may help.
"""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..stuck_pods import is_on_lost_node, unready_message


def no_ready_replica_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the reason if no pod of the current revision is ready. None if one is, or if only lost nodes have the pods."""
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    if not workload.spec.replicas or any(pod.ready for pod in pods):
        return None
    # A pod without a node may wait for the capacity of a lost node.
    counted = [pod for pod in pods if pod.spec.node_name and not is_on_lost_node(pod, snapshot)]
    if not counted and any(is_on_lost_node(pod, snapshot) for pod in pods):
        return None
    cause = unready_message(counted or pods)
    text = f"none of the {workload.spec.replicas} replicas of {workload} is ready" + (f": {cause}" if cause else "")
    return Reason("no_ready_replica", f"{text}; a restart is refused until one is")
