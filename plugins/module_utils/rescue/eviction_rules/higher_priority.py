# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod with a higher priority is not evicted."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ..victims.node_pod import NodePod, Preemptor

HIGHER_PRIORITY = Reason("higher_priority", "its priority is higher")


def higher_priority_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return a reason for a pod with a higher priority."""
    return HIGHER_PRIORITY if node_pod.priority > preemptor.priority else None
