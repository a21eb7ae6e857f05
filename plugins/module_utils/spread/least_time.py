# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The least time that the controllers and the kubelet take for new pods of a workload, by its probes, minReadySeconds and strategy.

Sources: deployment ``rolling.go`` (it removes old pods only as new ones become available), statefulset ``stateful_set_control.go`` (it
updates the next pod only when the last one is available), and the kubelet's ``prober/worker.go`` (no probe before the initial delay).
"""

from __future__ import annotations

from ..model.api.workload import Workload
from .rollout import partition, rollout_bounds


def least_ready_s(workload: Workload) -> int:
    """Return the least seconds between the creation of a pod and its readiness."""
    probes = (
        probe for container in workload.spec.template.spec.all_containers for probe in (container.readiness_probe, container.startup_probe)
    )
    return max((probe.initial_delay_seconds for probe in probes if probe is not None), default=0)


def rollout_steps(workload: Workload) -> int:
    """Return the number of groups of pods that a rollout creates one after the other."""
    bounds = rollout_bounds(workload)
    return -(-max(0, workload.spec.replicas - partition(workload)) // max(1, bounds.max_unavailable + bounds.max_surge))


def least_rollout_s(workload: Workload) -> int:
    """Return the least seconds of a rollout. That of a StatefulSet ends when its last pod is ready, without its minReadySeconds."""
    steps = rollout_steps(workload)
    waits = steps if workload.kind == "Deployment" else max(0, steps - 1)
    return steps * least_ready_s(workload) + waits * workload.spec.min_ready_seconds


def least_replacement_s(workload: Workload) -> int:
    """Return the least seconds until the replacement of an evicted pod is available."""
    return least_ready_s(workload) + workload.spec.min_ready_seconds
