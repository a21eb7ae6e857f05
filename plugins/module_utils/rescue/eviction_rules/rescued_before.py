# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod that was rescued a short time ago is not evicted for a pod with the same priority: one of the two would still have no node."""

from __future__ import annotations

import typing as t
from collections.abc import Collection

from ...model.reason import Reason
from ..victims.node_pod import NodePod, Preemptor

RESCUED_BEFORE = Reason("rescued_before", "it was rescued itself a short time ago, and its priority is the same")


def rescued_before_violation(node_pod: NodePod, preemptor: Preemptor, rescued: Collection[str]) -> t.Optional[Reason]:
    """Return a reason for a rescued pod with the same priority. ``rescued``: the uids of the pods that were rescued a short time ago."""
    if node_pod.priority != preemptor.priority:
        return None
    return RESCUED_BEFORE if node_pod.pod.metadata.uid in rescued else None
