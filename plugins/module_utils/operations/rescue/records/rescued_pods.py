# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rescued pods that may still lose their node.

A rescue has helped only if its pod keeps the node for ten minutes. A pod has lost its node if the control plane or the kubelet ended it
(condition ``DisruptionTarget``, KEP-3329), or if the kubelet rejected it. Tenants cannot write the status of pods. A pod that has
completed, or that its owner deleted, has not lost its node.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping

from ....kube.cache.informer import ClusterInformer
from ....kube.client.api import KubeApi
from ....kube.client.errors import ForbiddenError
from ....model.api.pod import Pod
from ....model.snapshot import ClusterSnapshot
from ....model.values.timestamps import parse_time, read_time
from ....rescue.victims.pod_traits import own_grace_period_s
from ....state.rescue_attempts import LASTS_S, AttemptRecord, record_completed_pod, record_kept_node, record_lost_node
from .attempt_store import AttemptStore

LOSS_EVENTS = ("Preempted", "TaintManagerEviction", "Evicted", "EvictedForCriticalPod")
"""The reasons of Events on pods that lose their node, by scheduler, node lifecycle controller, kubelet and rescues."""


class _Rescue(t.NamedTuple):
    """A rescued pod.

    ``key`` is the key of the attempt entry that counts it. ``since_s`` is the time of its binding, by the API server's clock.
    """

    key: str
    namespace: str
    since_s: float


_Record = t.Callable[..., t.Optional[AttemptRecord]]
"""One of ``record_lost_node``, ``record_kept_node`` and ``record_completed_pod``."""


class RescuedPodTracker:
    """Finds whether rescued pods have kept their nodes, and records it in their entries. Only the leader knows all of them."""

    def __init__(self, api: KubeApi, cache: ClusterInformer, attempts: AttemptStore) -> None:
        self._api, self._cache, self._attempts = api, cache, attempts
        self._open: dict[str, _Rescue] = {}

    def load(self, entries: Mapping[str, AttemptRecord]) -> None:
        """Watch the rescued pods of these entries, and no others."""
        self._open = {}
        for key, entry in entries.items():
            self.watch(key, entry)
        self._cache.retain_deleted(self._open)

    def watch(self, key: str, entry: t.Optional[AttemptRecord]) -> None:
        """Watch the rescued pods of this entry in addition."""
        for uid, rescue in _rescues(key, entry).items():
            self._open.setdefault(uid, rescue)
        self._cache.retain_deleted(self._open)

    def record_results(self, snapshot: ClusterSnapshot, now_s: float) -> None:
        """Record the pods that have lost or kept their node, or have completed, since the last check. Raise KubeError.

        The next check repeats a failed write.
        """
        if not self._open:
            return
        there = _by_uid(snapshot, self._open)
        for uid, rescue in list(self._open.items()):
            record = self._result_of(uid, rescue, there.get(uid), now_s)
            if record is not None:
                self._attempts.update(rescue.key, _change(record, now_s, uid))
                del self._open[uid]
        self._cache.retain_deleted(self._open)

    def with_results(
        self, key: str, entry: t.Optional[AttemptRecord], snapshot: ClusterSnapshot, now_s: float
    ) -> t.Optional[AttemptRecord]:
        """Return the entry with the results of its pods. Nothing is written. Raise KubeError."""
        rescues = _rescues(key, entry)
        there = _by_uid(snapshot, rescues) if rescues else {}
        for uid, rescue in rescues.items():
            record = self._result_of(uid, rescue, there.get(uid), now_s)
            if record is not None:
                entry = record(entry, now_s=now_s, pod_uid=uid)
        return entry

    def _result_of(self, uid: str, rescue: _Rescue, pod: t.Optional[Pod], now_s: float) -> t.Optional[_Record]:
        """Return the function that records the result of the pod. None if there is no result yet."""
        if pod is None:
            last = self._cache.last_state(uid)
            if last is None:
                return self._result_by_events(uid, rescue, now_s)
            return record_lost_node if has_lost_its_node(last, rescue.since_s, now_s) else record_completed_pod
        if not (pod.terminal or pod.terminating):
            return record_kept_node if now_s >= rescue.since_s + LASTS_S else None
        if has_lost_its_node(pod, rescue.since_s, now_s):
            return record_lost_node
        return record_completed_pod if pod.terminal else None  # the watch may not show yet why the pod terminates

    def _result_by_events(self, uid: str, rescue: _Rescue, now_s: float) -> _Record:
        """Return the function that records the result of a pod whose end was not observed. Its Events tell whether it lost its node.

        If Events are forbidden, a pod that is gone within ``LASTS_S`` counts as lost.
        """
        until_s = rescue.since_s + LASTS_S
        try:
            events = [event for reason in LOSS_EVENTS for event in self._api.events_on(rescue.namespace, uid, reason=reason)]
        except ForbiddenError:
            return record_lost_node if now_s < until_s else record_completed_pod
        return record_lost_node if any((read_time(event.last_seen) or -math.inf) <= until_s for event in events) else record_completed_pod


def has_lost_its_node(pod: Pod, since_s: float, now_s: float) -> bool:
    """Return whether a pod that is terminating, completed or gone lost its node within ``LASTS_S``.

    It has not if its own work or its owner ended it.
    """
    if pod.status.phase == "Failed" and not pod.status.container_statuses:
        return True  # the kubelet rejected the pod, for example with OutOfcpu
    conditions = pod.status.conditions or ()
    if not any(condition.type == "DisruptionTarget" and condition.status == "True" for condition in conditions):
        return False
    ends_s = read_time(pod.metadata.deletion_timestamp)
    began_s = now_s if ends_s is None else min(now_s, ends_s - own_grace_period_s(pod))
    return began_s <= since_s + LASTS_S


def _rescues(key: str, entry: t.Optional[AttemptRecord]) -> dict[str, _Rescue]:
    if entry is None:
        return {}
    namespace = entry.name.partition("/")[0]
    return {uid: _Rescue(key, namespace, parse_time(time)) for uid, time in entry.rescued.items()}


def _by_uid(snapshot: ClusterSnapshot, uids: Mapping[str, t.Any]) -> dict[str, Pod]:
    return {pod.metadata.uid: pod for pod in snapshot.pods if pod.metadata.uid in uids}


def _change(record: _Record, now_s: float, uid: str) -> t.Callable[[t.Optional[AttemptRecord]], t.Optional[AttemptRecord]]:
    return lambda entry: record(entry, now_s=now_s, pod_uid=uid)
