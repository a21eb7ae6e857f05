# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A static pod is not evicted: the kubelet would start it again."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.well_known import MIRROR_ANNOTATION

STATIC = Reason("static", "the kubelet runs it from a file")


def static_pod_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod that the kubelet runs from a file."""
    owners = pod.metadata.owner_references or ()
    is_of_node = any(owner.kind == "Node" and not owner.group for owner in owners)
    return STATIC if is_of_node or MIRROR_ANNOTATION in (pod.metadata.annotations or {}) else None
