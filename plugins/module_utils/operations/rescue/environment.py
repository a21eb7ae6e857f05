# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects that all steps of the rescues of one program use, its observer, and the view of one step."""

from __future__ import annotations

import typing as t
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...kube.cache.informer import CACHED_RESOURCES, WORKLOAD_RESOURCES, ClusterInformer
from ...kube.client.api import KubeApi
from ...model.api.pod import Pod
from ...model.snapshot import ClusterSnapshot
from ...rescue.held_nodes import HeldNode
from ...rescue.options import RescueOptions
from ...rescue.plan import RescuePlan, Victim
from ...rescue.planner import RescuePlanner
from ..common.event_recorder import EventRecorder
from ..common.leader_lease import LeaderLease, identity
from ..common.scheduler_profiles import read_scheduler_profiles
from .requests import REQUEST_TIMEOUT_S
from .task import RescueTask

RETRY_FOR_S = 5.0
"""Seconds for which a request is repeated after a transient error. After that the next reconciliation decides on a newer state."""
WRITE_WITHIN_S = 5.0
"""Limit of seconds for a write to a node, a pod's status or the ConfigMap.

The loop waits for the write, and a slow admission webhook must not block it for long. Requests for the Lease have the same limit. If the
server is slower, the program loses the Lease, so a longer limit for other writes would be useless.
"""


class RescueObserver:
    """Receives all notifications about rescues, for metrics, logs and results. The base class ignores them."""

    def on_planned(self, task: RescueTask, seconds: float) -> None:
        """The cluster was observed and the pod was planned, which took ``seconds`` in total."""

    def on_plan_changed(self, task: RescueTask) -> None:
        """The status or the reason of the plan for the pod has changed."""

    def on_hold(self, held: HeldNode) -> None:
        """The hold was placed. ``held`` has the node as it was before."""

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        """A pod was evicted for the task."""

    def on_released(self, held: HeldNode) -> None:
        """The hold was removed from the node."""

    def on_finished(self, task: RescueTask) -> None:
        """The task has ended with ``status``."""

    def on_error(self, what: str) -> None:
        """A read or write failed. It is repeated, or it is not required."""


class ReconcileView(t.NamedTuple):
    """The state of one step.

    ``now_s`` is the API server's clock in seconds since the epoch; ``now_at_s`` is this machine's monotonic clock. ``plans`` has the plans
    on it, by equivalence key (``rescue/equivalence.py``) or by the pod's UID. ``observed_in_s``: the duration of the observation.
    ``may_write``: a node may be held now.
    """

    snapshot: ClusterSnapshot
    planner: RescuePlanner
    now_s: float
    now_at_s: float
    plans: dict[Hashable, RescuePlan]
    observed_in_s: float
    may_write: bool

    def pods_on(self, node_name: str) -> Sequence[Pod]:
        """Return the pods on the node."""
        return self.snapshot.pods_by_node.get(node_name, ())


@dataclass(frozen=True)
class RescueEnvironment:
    """The objects that all steps of the rescues of one program use.

    ``writer``: the identity of the program. With ``dry_run``, plans are made and checked by dry runs, and nothing is changed.
    """

    api: KubeApi
    cache: ClusterInformer
    options: RescueOptions
    lease: LeaderLease
    observer: RescueObserver
    writer: str
    dry_run: bool = False

    @cached_property
    def events(self) -> EventRecorder:
        """The writer of Events."""
        return EventRecorder(self.api, self.observer.on_error, self.options.namespaces)


def open_environment(api: KubeApi, options: RescueOptions, observer: RescueObserver, *, dry_run: bool) -> RescueEnvironment:
    """Return the objects of a program. The informer is not started yet. Raise OptionError and KubeError.

    Requests without a quick answer are repeated on a newer state. Every write ends before the Lease can be lost. Snapshots have the
    profiles of ``scheduler_config``. Workloads are cached only for their maintenance windows and for the default constraints of a profile.
    """
    writer = identity()
    lease = LeaderLease(api, writer)
    client = api.with_timeouts(
        retry_for_s=RETRY_FOR_S, answer_timeout_s=REQUEST_TIMEOUT_S, until=lease.ends_at_s, write_within_s=WRITE_WITHIN_S
    )
    profiles = read_scheduler_profiles(api, options.scheduler_config)
    needs_workloads = options.respect_windows or any(profile.default_constraints for profile in profiles.values())
    cache = ClusterInformer(api, (*CACHED_RESOURCES, *WORKLOAD_RESOURCES) if needs_workloads else CACHED_RESOURCES, profiles=profiles)
    return RescueEnvironment(client, cache, options, lease, observer, writer, dry_run)
