# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod with the cluster autoscaler's annotation safe-to-evict=false is not evicted."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason

SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
NOT_SAFE_TO_EVICT = Reason("not_safe_to_evict", f'it is annotated {SAFE_TO_EVICT_ANNOTATION}: "false"')


def not_safe_to_evict_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod whose annotation forbids its eviction."""
    return NOT_SAFE_TO_EVICT if (pod.metadata.annotations or {}).get(SAFE_TO_EVICT_ANNOTATION) == "false" else None
