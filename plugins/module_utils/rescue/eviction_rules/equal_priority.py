# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod with the same priority is not evicted, unless allow_equal_priority is set."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ..victims.node_pod import NodePod, Preemptor

EQUAL_PRIORITY = Reason("equal_priority", "its priority is the same; allow_equal_priority would allow it")


def equal_priority_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return a reason for a pod with the same priority."""
    if preemptor.allow_equal_priority:
        return None
    return EQUAL_PRIORITY if node_pod.priority == preemptor.priority else None
