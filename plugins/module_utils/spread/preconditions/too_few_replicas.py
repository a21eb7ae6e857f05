# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the workload has fewer than two replicas."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason


def too_few_replicas_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why a workload with fewer than two replicas cannot be spread. None if it has more."""
    if workload.spec.replicas >= 2:
        return None
    return Reason("too_few_replicas", f"spreading needs at least 2 replicas, and the workload has {workload.spec.replicas}")
