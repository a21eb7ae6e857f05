# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod is not evicted against a PodDisruptionBudget.

``PdbLedger`` has the rule of the API server. The reason is that the budget allows no disruption now, that several budgets select the pod,
or that a budget that may select it cannot be read or decoded.
"""

from __future__ import annotations

import typing as t

from ...model.budgets.ledger import PdbLedger
from ...model.reason import Reason
from ..victims.node_pod import NodePod


def budget_violation(node_pod: NodePod, budgets: PdbLedger) -> t.Optional[Reason]:
    """Return a reason for a pod that its budgets protect now. ``budgets``: the disruptions that they still allow."""
    return budgets.status(node_pod.pod, node_pod.budget_status_key).violation
