# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod with the same controller as the pod that needs the capacity is not evicted."""

from __future__ import annotations

import typing as t

from ...model.reason import Reason
from ...model.snapshot import OwnerKey
from ..victims.node_pod import NodePod

SAME_CONTROLLER = Reason("same_controller", "it has the same controller as the pod that needs the capacity")


def same_controller_violation(node_pod: NodePod, owner: t.Optional[OwnerKey]) -> t.Optional[Reason]:
    """Return a reason for a pod with the same controller as the pod that needs the capacity.

    ``owner``: the namespace and the UID of the controller of the pod that needs the capacity. None if it has none.
    """
    return SAME_CONTROLLER if owner is not None and node_pod.owner == owner else None
