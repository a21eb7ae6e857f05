# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether the scheduler that a pod waits for is running: without it evictions would be in vain."""

from __future__ import annotations

import typing as t

from ...kube.api import KubeApi
from ...kube.errors import ForbiddenError, NotFoundError
from ...kube.resources import LEASES
from ...model.objects import Pod
from ...model.reasons import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.timestamps import parse_time

DEFAULT_SCHEDULER = "default-scheduler"
LEASE_NAMESPACE, LEASE_NAME = "kube-system", "kube-scheduler"
STALE_AFTER_S = 10
"""Seconds beyond its duration after which the Lease counts as given up."""
SILENT_AFTER_S = 600
"""A scheduler tries what it could not place again after five minutes at the latest (kubernetes ``scheduling_queue.go``)."""
ASKED_EVERY_S = 5


class SchedulerLife:
    """Looks for signs of life, at most every five seconds. One that is found counts for all pods of the scheduler; that there is none does
    not.
    """

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._alive_s: dict[str, float] = {}
        self._silent: dict[str, tuple[float, Reason]] = {}

    def reason_to_wait(self, pod: Pod, since_s: float, snapshot: ClusterSnapshot) -> t.Optional[Reason]:
        """Why the pod's scheduler counts as not running; None where it runs, or where nothing says that it does not."""
        name, uid, now_s = pod.spec.scheduler_name, pod.metadata.uid, self._api.now_s()
        if now_s - self._alive_s.get(name, 0.0) < ASKED_EVERY_S:
            return None
        asked_s, known = self._silent.get(uid, (0.0, None))
        if now_s - asked_s < ASKED_EVERY_S:
            return known
        self._silent = {uid: entry for uid, entry in self._silent.items() if now_s - entry[0] < ASKED_EVERY_S}
        found = self._lease_given_up(now_s) if name == DEFAULT_SCHEDULER else _NO_LEASE
        if found is _NO_LEASE:
            found = None if self._has_been_seen(pod, since_s, snapshot, now_s) else _silent(name)
        if found is None:
            self._alive_s[name] = now_s
        else:
            self._silent[uid] = now_s, found
        return found

    def _lease_given_up(self, now_s: float) -> t.Optional[Reason]:
        try:
            spec = self._api.get(LEASES, LEASE_NAMESPACE, LEASE_NAME).spec
        except (NotFoundError, ForbiddenError):
            return _NO_LEASE
        if not spec.holder_identity or not spec.renew_time:
            return _NO_LEASE
        late_s = now_s - parse_time(spec.renew_time) - (spec.lease_duration_seconds or 0)
        if late_s <= STALE_AFTER_S:
            return None
        text = f"kube-scheduler ({spec.holder_identity}) has not renewed its Lease {LEASE_NAMESPACE}/{LEASE_NAME} since {spec.renew_time}"
        return Reason("scheduler_down", f"{text}: evictions would be in vain until one runs")

    def _has_been_seen(self, pod: Pod, since_s: float, snapshot: ClusterSnapshot, now_s: float) -> bool:
        """It has marked this pod, bound or reported any of its pods within the last minutes."""
        earliest_s = now_s - SILENT_AFTER_S
        if since_s > earliest_s:
            return True
        name = pod.spec.scheduler_name
        bound = (other for other in snapshot.pods if other.spec.node_name and other.spec.scheduler_name == name and not _is_static(other))
        if any(parse_time(other.metadata.creation_timestamp) > earliest_s for other in bound if other.metadata.creation_timestamp):
            return True
        try:
            events = self._api.events_on(pod.metadata.namespace, pod.metadata.uid, reason="FailedScheduling")
        except ForbiddenError:
            return False
        return any(parse_time(event.last_seen) > earliest_s for event in events if event.last_seen)


def _is_static(pod: Pod) -> bool:
    """The kubelet runs it; no scheduler has bound it."""
    return any(owner.kind == "Node" for owner in pod.metadata.owner_references or ())


def _silent(name: str) -> Reason:
    text = (
        f"nothing was bound or reported by the scheduler {name!r} for {SILENT_AFTER_S // 60} minutes: start it, evictions would be in vain"
    )
    return Reason("scheduler_silent", text)


_NO_LEASE = Reason("no_lease")
