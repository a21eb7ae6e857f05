# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""StatefulSets whose controller replaces no pod until all pods are Ready."""

from __future__ import annotations

from ...model.api.workload import Workload
from ...model.reason import Reason, Reasons
from ...model.snapshot import ClusterSnapshot, ordinal


def unready_pod_unknown(workload: Workload, snapshot: ClusterSnapshot) -> Reasons:
    """Return the reason why it is not known whether a restart replaces any pod. Empty if the controller does not wait.

    Without the policy Parallel, the controller waits until each pod is Running and Ready, and only then replaces the first one. Source:
    kubernetes ``pkg/controller/statefulset/stateful_set_control.go`` (processReplica).
    """
    if workload.kind != "StatefulSet" or workload.spec.pod_management_policy == "Parallel":
        return ()
    pods = [pod for pod in snapshot.owned_pods(workload) if not pod.terminal and not pod.ready]
    waiting = min(pods, key=ordinal, default=None)
    if waiting is None:
        return ()
    name = waiting.metadata.name
    text = f"{name} is not Ready, and the controller of a StatefulSet without the policy Parallel replaces no pod until it is"
    return (Reason("waits_for_ready_pod", text),)
