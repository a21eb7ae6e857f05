# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""PodDisruptionBudgets (policy/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, Condition, LabelSelector, ObjectMeta


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """The pods that a budget selects, and its policy for unhealthy pods."""

    selector: t.Optional[LabelSelector] = None
    unhealthy_pod_eviction_policy: t.Optional[str] = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """The status that the disruption controller writes."""

    desired_healthy: int = 0
    current_healthy: int = 0
    expected_pods: int = 0
    disruptions_allowed: int = 0
    observed_generation: int = 0
    conditions: t.Optional[tuple[Condition, ...]] = None


class PodDisruptionBudget(ApiStruct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)

    @property
    def is_observed(self) -> bool:
        """Return whether the status is for the newest spec."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def sync_failure(self) -> t.Optional[Condition]:
        """Return the condition with which the controller reports that it cannot compute the status. None if it can."""
        conditions = self.status.conditions or ()
        return next((one for one in conditions if one.type == "DisruptionAllowed" and one.reason == "SyncFailed"), None)
