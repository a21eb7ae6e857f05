# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks that the scheduler of a pod is running. Without it, evictions would have no effect."""

from __future__ import annotations

import time
import typing as t

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import ForbiddenError, NotFoundError
from ...kube.client.resources import LEASES
from ...model.api.coordination import LeaseSpec
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import read_time

DEFAULT_SCHEDULER = "default-scheduler"
LEASE_NAMESPACE, LEASE_NAME = "kube-system", "kube-scheduler"
STALE_AFTER_S = 10
"""Seconds after the end of its duration after which the Lease counts as abandoned."""
SILENT_AFTER_S = 600
"""Seconds without activity after which a scheduler counts as not running.

It retries unschedulable pods after five minutes at the latest (kubernetes ``scheduling_queue.go``).
"""
FRESH_FOR_S = 10
"""Activity in these last seconds overrides an expired Lease, because the clocks of scheduler and API server may differ."""
UNUSED_AFTER_S = 60
"""If a scheduler is still active these seconds after its Lease has expired, it does not use the Lease.

It is checked like a scheduler without a Lease.
"""
ASKED_EVERY_S = 5
MAX_NAME_LENGTH = 253
"""Limit of characters of a scheduler's name that are shown. The API server does not limit it."""


class SchedulerHealth:
    """Checks the activity of schedulers, at most every ``ASKED_EVERY_S`` seconds.

    Activity counts for all pods of the scheduler. Missing activity counts only for the pod that was checked.
    """

    def __init__(self, api: KubeApi, cache: ClusterInformer) -> None:
        self._api, self._cache = api, cache
        self._answers: dict[tuple[str, str], tuple[float, t.Optional[Reason]]] = {}

    def violation(self, pod: Pod, since_s: float, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
        """Return the reason why the pod's scheduler counts as not running. None if it runs, or if nothing shows that it does not."""
        of_scheduler, of_pod, now_at_s = ("scheduler", pod.spec.scheduler_name), ("pod", pod.metadata.uid), time.monotonic()
        self._answers = {key: answer for key, answer in self._answers.items() if now_at_s - answer[0] < ASKED_EVERY_S}
        for key in (of_scheduler, of_pod):
            if key in self._answers:
                return self._answers[key][1]
        found = self._find_violation(pod, since_s, snapshot, self._api.now_s())
        self._answers[of_scheduler if found is None else of_pod] = now_at_s, found
        return found

    def _find_violation(self, pod: Pod, since_s: float, snapshot: ClusterSnapshot, now_s: float) -> t.Optional[Reason]:
        name = pod.spec.scheduler_name
        lease = self._lease() if name == DEFAULT_SCHEDULER else None
        if lease is None:
            return None if self._is_alive(pod, since_s, snapshot, now_s, now_s - SILENT_AFTER_S) else _silent(name)
        ended_s = (read_time(lease.renew_time) or 0.0) + (lease.lease_duration_seconds or 0)
        if now_s - ended_s <= STALE_AFTER_S:
            return None
        earliest_s = min(now_s - FRESH_FOR_S, max(ended_s + UNUSED_AFTER_S, now_s - SILENT_AFTER_S))
        return None if self._is_alive(pod, since_s, snapshot, now_s, earliest_s) else _given_up(lease)

    def _lease(self) -> t.Optional[LeaseSpec]:
        """Return the scheduler's Lease. None if it has none or it cannot be read."""
        try:
            spec: LeaseSpec = self._api.get(LEASES, LEASE_NAMESPACE, LEASE_NAME).spec
        except (NotFoundError, ForbiddenError):
            return None
        # A scheduler that stops normally leaves its Lease without a holder.
        return spec if read_time(spec.renew_time) is not None else None

    def _is_alive(self, pod: Pod, since_s: float, snapshot: ClusterSnapshot, now_s: float, earliest_s: float) -> bool:
        """Return whether the scheduler has bound or reported a pod since ``earliest_s``.

        Only facts count that a tenant cannot write: a pod that got its node while this program watched it, a condition in the status of a
        pod, and an Event in the namespace of the critical pod. A pod with a node may have been created with it.
        """
        if since_s > earliest_s:
            return True
        name = pod.spec.scheduler_name
        bound_ago_s = self._cache.last_bound_s_ago(name)
        if bound_ago_s is not None and now_s - bound_ago_s > earliest_s:
            return True
        waiting = (other for other in snapshot.pending_pods if other.spec.scheduler_name == name)
        if any((self._cache.unschedulable_since(other.metadata.uid) or 0.0) > earliest_s for other in waiting):
            return True
        return self._has_reported(pod, earliest_s)

    def _has_reported(self, pod: Pod, earliest_s: float) -> bool:
        """Return whether the scheduler has written an Event about the pod since ``earliest_s``."""
        try:
            events = self._api.events_on(pod.metadata.namespace, pod.metadata.uid, reason="FailedScheduling")
        except ForbiddenError:
            return False
        return any((read_time(event.last_seen) or 0.0) > earliest_s for event in events)


def _given_up(lease: LeaseSpec) -> Reason:
    holder = f" ({lease.holder_identity})" if lease.holder_identity else ""
    since = f"Lease {LEASE_NAMESPACE}/{LEASE_NAME} since {lease.renew_time}: evictions have no effect until one runs"
    return Reason("scheduler_down", f"no kube-scheduler{holder} has renewed the {since}")


def _silent(name: str) -> Reason:
    shown = name[:MAX_NAME_LENGTH]
    text = (
        f"no Event and no bound pod shows that the scheduler {shown!r} has run in the last {SILENT_AFTER_S // 60} minutes: "
        "start it, because evictions have no effect without it"
    )
    return Reason("scheduler_silent", text)
