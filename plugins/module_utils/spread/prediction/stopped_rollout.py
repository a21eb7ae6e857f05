# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Rollouts that stop because their controller waits for a pod."""

from __future__ import annotations

from ...model.api.workload import Workload
from ...model.reason import Reason, Reasons
from ...model.snapshot import ClusterSnapshot, ordinal
from ..preconditions.unhealthy_pods import unhealthy_pods_violation
from ..rollout import partition
from ..stuck_pods import is_on_lost_node
from .draws import waits_for_end


def stopped_rollout_unknown(workload: Workload, snapshot: ClusterSnapshot) -> Reasons:
    """Return the reason why it is not known whether a restart replaces its pods. Empty if the controller does not wait.

    The new pods may fail as the present ones do, and then the rollout does not end.
    Source: kubernetes ``pkg/controller/statefulset/stateful_set_control.go`` (processReplica, updateStatefulSet) and
    ``pkg/controller/deployment/recreate.go`` (oldPodsRunning).
    """
    unhealthy = unhealthy_pods_violation(workload, snapshot)
    if unhealthy is not None:
        return (unhealthy,)
    return _lost_pod_unknown(workload, snapshot) or _unready_pod_unknown(workload, snapshot)


def _lost_pod_unknown(workload: Workload, snapshot: ClusterSnapshot) -> Reasons:
    """A deleted pod on a node that does not answer does not end, and some controllers create no other pod until it has."""
    if not waits_for_end(workload):
        return ()
    pods = [pod for pod in snapshot.owned_pods(workload) if not pod.terminal and is_on_lost_node(pod, snapshot)]
    if workload.kind == "StatefulSet":
        pods = [pod for pod in pods if ordinal(pod) - workload.first_ordinal >= partition(workload)]
    lost = next(iter(pods), None)
    if lost is None:
        return ()
    where = f"{lost.metadata.name} is on node {lost.spec.node_name}, which is not Ready"
    return (Reason("waits_for_lost_pod", f"{where}, and the controller of {workload} creates no other pod for it until it has ended"),)


def _unready_pod_unknown(workload: Workload, snapshot: ClusterSnapshot) -> Reasons:
    """Without the policy Parallel, the controller waits until each pod is Running and Ready, and only then replaces the first one."""
    if workload.kind != "StatefulSet" or workload.spec.pod_management_policy == "Parallel":
        return ()
    pods = [pod for pod in snapshot.owned_pods(workload) if not pod.terminal and not pod.ready]
    waiting = min(pods, key=ordinal, default=None)
    if waiting is None:
        return ()
    name = waiting.metadata.name
    text = f"{name} is not Ready, and the controller of a StatefulSet without the policy Parallel replaces no pod until it is"
    return (Reason("waits_for_ready_pod", text),)
