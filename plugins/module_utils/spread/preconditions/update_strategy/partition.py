# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the partition of a StatefulSet keeps all replicas at their revision."""

from __future__ import annotations

import typing as t

from ....model.api.workload import Workload
from ....model.reason import Reason
from ...rollout import partition


def partition_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why a restart replaces no replica. None if it replaces some."""
    if not workload.spec.replicas or partition(workload) < workload.spec.replicas:
        return None
    return Reason("partition", f"partition {partition(workload)} of {workload} keeps all {workload.spec.replicas} replicas as they are")
