# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: containers wait with a lasting error.

Pods on a node that is not ready are ignored: their state is outdated, and a restart may help.
"""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ..stuck_pods import LASTING_REASONS, is_on_lost_node, waiting_container

FIRST_FAILURES = frozenset({"ErrImagePull", "RegistryUnavailable"})
"""Reasons of a first failure. The kubelet tries again or sets ImagePullBackOff afterwards. They forbid a restart but do not end a wait."""


def unhealthy_pods_violation(workload: Workload, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
    """Return the waiting container of a pod of the current revision that forbids a restart. None if there is none."""
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    waiting = waiting_container((pod for pod in pods if not is_on_lost_node(pod, snapshot)), LASTING_REASONS | FIRST_FAILURES)
    if not waiting:
        return None
    return Reason("unhealthy_pods", f"{waiting}; a restart of {workload} or an eviction of its pods would not change that")
