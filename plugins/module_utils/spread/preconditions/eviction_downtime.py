# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal of an eviction: it may leave no available pod of the workload."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.reason import Reason


def eviction_downtime_violation(workload: Workload, pod: Pod, *, allow_downtime: bool) -> t.Optional[Reason]:
    """Return the reason if no other pod of the workload may be available without the pod. None with ``allow_downtime``."""
    left = workload.status.available_replicas - (1 if pod.ready else 0)
    if left >= 1 or allow_downtime:
        return None
    return Reason("downtime", f"the eviction of a pod of {workload} may leave no available pod; set allow_downtime")
