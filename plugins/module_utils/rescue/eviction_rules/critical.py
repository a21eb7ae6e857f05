# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A critical pod is not evicted, unless allow_equal_priority is set."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ..victims.node_pod import NodePod, Preemptor

CRITICAL = Reason("critical", "it is critical itself; allow_equal_priority would allow it")


def critical_violation(node_pod: NodePod, preemptor: Preemptor) -> t.Optional[Reason]:
    """Return a reason for a critical pod."""
    return CRITICAL if node_pod.protected and not preemptor.allow_equal_priority else None
