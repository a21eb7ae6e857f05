# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: the Deployment is paused."""

from __future__ import annotations

import typing as t

from ...model.api.workload import Workload
from ...model.reason import Reason


def paused_violation(workload: Workload) -> t.Optional[Reason]:
    """Return the reason why a rollout of a paused Deployment makes no progress. None if the workload is not paused."""
    if not workload.spec.paused:
        return None
    return Reason("paused", f"{workload} is paused; resume its rollout first, or use strategy evict_surplus")
