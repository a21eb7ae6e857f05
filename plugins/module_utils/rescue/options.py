# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a rescue may do; the options of k8s_critical_rescue and of the rescuer, by the names that both use."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

AUTO, TAINT, NONE = "auto", "taint", "none"
HOLDS = (AUTO, TAINT, NONE)
KUBE_SYSTEM, ALL = "kube-system", "all"
HONORED = (KUBE_SYSTEM, ALL, NONE)
"""Where the annotation that makes pods critical counts: in kube-system, in all of ``namespaces``, or nowhere."""
RESCUED, RELEASED = "rescued", "released"
STATES = (RESCUED, RELEASED)
DEFAULT_TAINT_KEY = "CriticalAddonsOnly"
MINIMA: dict[str, int] = {
    "evict_timeout": 0,
    "grace_period": 0,
    "max_attempts": 1,
    "max_victims": 1,
    "priority_threshold": -(2**31),
    "scheduled_timeout": 1,
    "settle_time": 0,
}
"""The least value of each option that is a whole number."""

TIMES = ("evict_timeout", "grace_period", "scheduled_timeout", "settle_time")
LONGEST_S = 365 * 24 * 3600
"""The most that each of them can be."""


@dataclass(frozen=True)
class RescueOptions:
    """Which pods are rescued, by what means. Times are whole seconds.

    ``grace_period`` caps the grace of victims: at least 1, and 0 only with ``force``. ``max_victims`` bounds the victims for one pod, None
    sets no bound. ``settle_time`` is what the scheduler gets for its own preemption before anything is done.
    """

    namespaces: tuple[str, ...] = ("kube-system",)
    priority_threshold: int = 2_000_000_000
    honor_critical_annotation: str = KUBE_SYSTEM
    grace_period: int = 10
    force: bool = False
    max_victims: t.Optional[int] = None
    allow_equal_priority: bool = False
    allow_short_grace: bool = False
    allow_bare_pods: bool = False
    allow_local_storage: bool = False
    settle_time: int = 2
    hold: str = AUTO
    hold_taint_key: str = DEFAULT_TAINT_KEY
    scheduled_timeout: int = 600
    evict_timeout: int = 120
    max_attempts: int = 3

    def after(self, evicted: int) -> RescueOptions:
        """What is left to do with when so many pods have been evicted for a pod already."""
        return self if self.max_victims is None or not evicted else replace(self, max_victims=max(0, self.max_victims - evicted))
