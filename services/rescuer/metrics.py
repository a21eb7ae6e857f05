# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Prometheus metrics of the rescuer."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Collection, Iterable, Sequence

from prometheus_client import Counter, Gauge, Histogram

from ...plugins.module_utils.kube.cache.informer import CACHED_RESOURCES, WORKLOAD_RESOURCES
from ...plugins.module_utils.operations.rescue.task import FAILED, POD_GONE, RESCUED, RescueTask
from ...plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED, WAITING
from ...plugins.module_utils.state.hold import Hold
from ..common.registry import new_registry

PREFIX = "kube_scheduling_rescue_"
CLEARING = "clearing"
RESULTS = (RESCUED, FAILED, POD_GONE)
STATUSES = (WAITING, PLANNED, CLEARING, IMPOSSIBLE)
BOUND_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600)
PLANNING_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2.5, 5)


class Metrics:
    """The metrics in a separate registry, so that one process can have several."""

    def __init__(self) -> None:
        self.registry = registry = new_registry()

        def gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
            return Gauge(f"{PREFIX}{name}", text, labels, registry=registry)

        def counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
            return Counter(f"{PREFIX}{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"{PREFIX}{name}", text, buckets=buckets, registry=registry)

        self.pending = gauge("pending_critical_pods", "Critical pods without a node, by what is done for them.", ["status"])
        self.rescues = counter("rescues", "Rescues that this process began and that have ended.", ["result"])
        self.evictions = counter("evictions", "Pods that this process has evicted.")
        bound = "Seconds from the report that no node fits a critical pod until the pod is bound, observed by the leader."
        self.bound = histogram("unschedulable_to_bound_seconds", bound, BOUND_BUCKETS_S)
        self.holds = gauge("holds", "Nodes that are held for a critical pod, by any program.")
        overdue = "Seconds since the earliest deadline of a hold, by the API server's clock. 0 if none has passed."
        self.hold_overdue = gauge("hold_overdue_seconds", overdue)
        self.leader = gauge("leader", "1 in the process that has the Lease, 0 in the others.")
        self.dry_run = gauge("dry_run", "1 in a process that only plans, and therefore never leads.")
        self.unready = gauge("unready", "1 in a process that cannot do its work; /readyz has the reason.")
        self.planning = histogram("planning_seconds", "Seconds to observe the cluster and to plan one pod.", PLANNING_BUCKETS_S)
        self.undecodable = gauge("undecodable_objects", "Objects that cannot be decoded at the moment, by kind.", ["kind"])
        self.errors = counter("errors", "Errors that were retried, or that were not fatal.")
        # Without this a label value that was never used would be missing instead of 0.
        for result in RESULTS:
            self.rescues.labels(result)
        self.set_pending(())
        self.set_undecodable(())

    def set_undecodable(self, kinds: Iterable[str]) -> None:
        """Count the objects that cannot be decoded. ``kinds`` has the kind of each."""
        tally = Tally(kinds)
        for resource in (*CACHED_RESOURCES, *WORKLOAD_RESOURCES):
            self.undecodable.labels(resource.kind).set(tally[resource.kind])

    def set_pending(self, tasks: Iterable[RescueTask]) -> None:
        """Count the tasks that have not finished, and finished tasks with the status planned."""
        tally = Tally(_status_of(task) for task in tasks if not task.is_finished or task.status == PLANNED)
        for status in STATUSES:
            self.pending.labels(status).set(tally[status])

    def set_holds(self, holds: Collection[Hold], now_s: Callable[[], float]) -> None:
        """Count the holds of the cluster, and note the earliest deadline. ``now_s`` returns the time of the API server's clock."""
        self.holds.set(len(holds))
        earliest_s = min((hold.deadline_s for hold in holds), default=math.inf)
        self.hold_overdue.set_function(lambda: max(0.0, now_s() - earliest_s))


def _status_of(task: RescueTask) -> str:
    """Return the status label of a task. A task that clears a node counts as clearing, one without a plan yet as waiting."""
    if task.is_clearing:
        return CLEARING
    return task.status if task.status in STATUSES else WAITING
