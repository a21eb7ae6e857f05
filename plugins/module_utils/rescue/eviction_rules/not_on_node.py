# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod that is not bound to the node yet is not evicted."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.reason import Reason

NOT_ON_NODE = Reason("not_on_node", "it is not bound to the node yet")


def not_on_node_violation(pod: Pod) -> t.Optional[Reason]:
    """Return a reason for a pod that has no node."""
    return None if pod.spec.node_name else NOT_ON_NODE
