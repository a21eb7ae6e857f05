# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The waits of one rescue: for the scheduler, for terminating pods, and for other rescues. Each has a maximum. Pure.

Times ending in ``_at_s`` and ``_since_s`` are of the monotonic clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...rescue.plan_reasons import ANOTHER_POD_FIRST, CAPACITY_BECOMING_FREE, OTHERS_TERMINATING

MAX_SETTLES = 10
SETTLES_WITHIN_S = 600.0
LONGEST_SETTLING_S = 300.0
"""In SETTLES_WITHIN_S seconds the scheduler gets at most MAX_SETTLES settle times, and at most LONGEST_SETTLING_S seconds in all."""


@dataclass(frozen=True)
class Settling:
    """The time of the scheduler to bind the pod by itself. It ends at ``ends_at_s``.

    ``began_at_s``: the start of the SETTLES_WITHIN_S seconds in which the restarts are limited.
    """

    ends_at_s: float
    began_at_s: float = -math.inf

    def restarted(self, now_at_s: float, settle_time_s: float) -> Settling:
        """Return the time after a restart. It never ends earlier than before, and restarts are limited."""
        began_at_s = now_at_s if now_at_s > self.began_at_s + SETTLES_WITHIN_S else self.began_at_s
        latest_s = began_at_s + min(MAX_SETTLES * settle_time_s, LONGEST_SETTLING_S)
        return Settling(max(self.ends_at_s, min(now_at_s + settle_time_s, latest_s)), began_at_s)


@dataclass(frozen=True)
class Waits:
    """The start of each wait. ``math.inf`` if there is none.

    A wait ends ``max_s`` seconds after its first start. Pods that terminate later do not prolong it, because they may be an intended delay.
    """

    max_s: float = math.inf
    capacity_since_s: float = math.inf
    """The wait for terminating pods whose capacity is enough."""
    others_since_s: float = math.inf
    """The wait for the end of other terminating pods, which makes the scheduler try the pod."""
    expected_pods_since_s: float = math.inf
    """The wait for other pods that are expected to get a node."""
    queued_since_s: float = math.inf
    """The wait of the plan for other rescues."""
    node_since_s: float = math.inf
    """The time since which the pod is expected to get the node of its plan."""

    def begin(self, code: str, now_at_s: float) -> Waits:
        """Return the waits after a plan with this reason's code, which may begin one of them."""
        if code == CAPACITY_BECOMING_FREE:
            return replace(self, capacity_since_s=min(self.capacity_since_s, now_at_s))
        if code == OTHERS_TERMINATING:
            return replace(self, others_since_s=min(self.others_since_s, now_at_s))
        if code == ANOTHER_POD_FIRST:
            return replace(self, expected_pods_since_s=min(self.expected_pods_since_s, now_at_s))
        return self

    def begin_queue(self, now_at_s: float) -> Waits:
        """Return the waits of a plan that waits for other rescues from now on, or from before."""
        return replace(self, queued_since_s=min(self.queued_since_s, now_at_s))

    def end_queue(self) -> Waits:
        """Return the waits of a plan that does not wait for other rescues."""
        return replace(self, queued_since_s=math.inf)

    def expect_node(self, now_at_s: float) -> Waits:
        """Return the waits of a pod that is expected to get a node."""
        return replace(self, node_since_s=min(self.node_since_s, now_at_s))

    def has_ended(self, since_s: float, now_at_s: float) -> bool:
        """Return whether the wait that began at ``since_s`` has lasted for its maximum time."""
        return now_at_s > since_s + self.max_s
