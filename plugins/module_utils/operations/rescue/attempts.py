# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The attempts of rescues in a ConfigMap. Writes to the owners themselves would need rights close to cluster-admin.

A rescue has helped only if its pod keeps the node for ten minutes. A pod has lost its node if the control plane or the kubelet ended it
(condition ``DisruptionTarget``, KEP-3329), or if the kubelet rejected it. Tenants cannot write the status of pods. A pod that has
completed, or that its owner deleted, has not lost its node.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Container, Iterable, Mapping

from ...kube.client.errors import ConflictError, ForbiddenError, KubeError, is_transient
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod, PodSpec
from ...model.reason import Reason, reason_message
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import read_time
from ...rescue.plan import Victim
from ...rescue.victims.pod_traits import own_grace_period_s
from ...state import rescue_attempts
from ...state.rescue_attempts import COMPLETED, KEPT, LASTS_S, LOST, AttemptRecord, VictimRecord
from ..common.config_map_store import Changes, ConfigMapStore
from .environment import ReconcileView, RescueEnvironment
from .task import FAILED, RESCUED, RescueTask

Change = t.Callable[[t.Optional[AttemptRecord]], t.Optional[AttemptRecord]]


def record_of(victim: Victim) -> VictimRecord:
    """Return the record of a victim."""
    metadata, reason = victim.pod.metadata, victim.reason
    return VictimRecord(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        node=victim.pod.spec.node_name,
        priority=victim.priority,
        grace_period=victim.grace_period_s,
        code=reason.code,
        text=reason.text,
    )


def victim_of(record: VictimRecord) -> Victim:
    """Return the victim of a record, with the parts of its pod that results and Events show."""
    metadata = ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid)
    pod = Pod(metadata=metadata, spec=PodSpec(node_name=record.node, priority=record.priority))
    return Victim(pod, record.priority, Reason(record.code, record.text), record.grace_period)


LOSS_EVENTS = ("Preempted", "TaintManagerEviction", "Evicted", "EvictedForCriticalPod")
"""The reasons of Events on pods that lose their node, by scheduler, node lifecycle controller, kubelet and rescues."""


def has_lost_its_node(pod: Pod, since_s: float, now_s: float) -> bool:
    """Return whether a pod that is terminating, completed or gone lost its node within ``LASTS_S``.

    It has not if its own work or its owner ended it.
    """
    if pod.status.phase == "Failed" and not pod.status.container_statuses:
        return True  # the kubelet rejected the pod, for example with OutOfcpu
    if pod.disruption_reason is None:
        return False
    ends_s = read_time(pod.metadata.deletion_timestamp)
    began_s = now_s if ends_s is None else min(now_s, ends_s - own_grace_period_s(pod))
    return began_s <= since_s + LASTS_S


RETRY_S = 2.0
"""Seconds until the next try after a failed write."""
MAX_NAMED_PODS = 5
"""Limit of pods in one message."""


class AttemptRecorder:
    """Records the attempts of tasks. All methods that write raise KubeError, except ``try_to_record_outcome`` and ``reconcile``.

    ``_entries``: the entries of the ConfigMap as last read or written. Only the leader knows that they are current.
    """

    def __init__(self, environment: RescueEnvironment, store: ConfigMapStore) -> None:
        self._store, self._lease, self._writer = store, environment.lease, environment.writer
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._api, self._cache, self._events = environment.api, environment.cache, environment.events
        self._entries: dict[str, AttemptRecord] = {}
        self._rescued_since_s: dict[str, float] = {}
        self._is_loaded = False
        self._due_at_s = 0.0

    def load(self, task: RescueTask) -> t.Optional[AttemptRecord]:
        """Return the entry that counts the attempts for the pod. The task gets the pods that another program may have evicted for it."""
        self._read()
        attempt = self._entries.get(self._key_of(task))
        if not task.loaded:
            task.attempt_started |= attempt is not None and task.uid in attempt.under_way and not self._dry_run
            known = {victim.pod.metadata.uid for victim in task.evicted}
            records = {record.uid: record for record in (attempt.victims.get(task.uid, ()) if attempt is not None else ())}
            task.uncertain_evictions.update((uid, victim_of(record)) for uid, record in records.items() if uid not in known)
            task.recorded_victims = task.recorded_victims.intersection(records)
        task.loaded = True
        return attempt

    def rescued_pods(self, now_s: float) -> frozenset[str]:
        """Return the uids of the pods that any program has rescued in the last ``LASTS_S`` seconds, by the records as last read."""
        return frozenset(uid for uid, since_s in self._rescued_since_s.items() if now_s < since_s + LASTS_S)

    def record_start(self, task: RescueTask, victim: Victim, view: ReconcileView) -> None:
        """Record that the rescue is in progress, with the evicted pods and the next victim."""
        uid = victim.pod.metadata.uid
        victims = [*task.evicted, *(one for known, one in task.uncertain_evictions.items() if known != uid), victim]
        records = [record_of(one) for one in victims]

        def change(entry: t.Optional[AttemptRecord]) -> AttemptRecord:
            return rescue_attempts.start(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name, victims=records)

        self._update(self._key_of(task), change)
        task.attempt_started, task.recorded_victims = True, frozenset(one.pod.metadata.uid for one in victims)

    def load_with_results(self, task: RescueTask, view: ReconcileView) -> t.Optional[AttemptRecord]:
        """Return the entry for the pod. Pods that were rescued before have their results: kept or lost the node, or completed."""
        attempt = self.load(task)
        if attempt is None:
            return None
        return self._record_results(self._key_of(task), self._pods_of([attempt], view), view, attempt.under_way)

    def record_outcome(self, task: RescueTask, view: ReconcileView) -> None:
        """Record the result of the attempt."""
        pending = _pending(view.snapshot)

        def change(entry: t.Optional[AttemptRecord]) -> t.Optional[AttemptRecord]:
            if task.status == RESCUED:
                return rescue_attempts.record_success(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name, pending=pending)
            if task.status != FAILED and not task.evicted:
                return rescue_attempts.cancel(entry, now_s=view.now_s, pod_uid=task.uid)
            return rescue_attempts.record_failure(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name)

        self._update(self._key_of(task), change)

    def try_to_record_outcome(self, task: RescueTask, view: ReconcileView) -> None:
        """Record the result of the attempt if that is due. A write that may succeed later is tried again."""
        if not task.attempt_started or task.outcome_recorded or view.now_at_s < task.retry_at_s:
            return
        try:
            self.record_outcome(task, view)
        except KubeError as error:
            self._observer.on_error(f"{task.name}: the result of the attempt could not be written: {error}")
            if is_transient(error) or isinstance(error, ConflictError):
                task.retry_at_s = view.now_at_s + RETRY_S
                return
        task.outcome_recorded = True
        if task.status in (FAILED, RESCUED):
            warning = task.status == FAILED
            self._events.on_pod(task.pod, "RescueFailed" if warning else "Rescued", reason_message(task.reason), warning=warning)

    def reconcile(self, view: ReconcileView, tasks: Container[str]) -> None:
        """Record the results of attempts of ended programs, and which rescued pods have kept their nodes. Only the leader does this.

        ``tasks``: the uids of the pods with a task. They record their results themselves.
        """
        if not self._lease.held:
            self._is_loaded = False
            return
        if self._dry_run or view.now_at_s < self._due_at_s:
            return
        try:
            if not self._is_loaded:
                self._read()
                self._is_loaded = True
            there = self._pods_of(self._entries.values(), view)
            for key in list(self._entries):  # the next check repeats a failed write
                self._record_results(key, there, view, tasks)
        except KubeError as error:
            self._observer.on_error(f"attempts in the ConfigMap may be out of date: {error}")
            self._due_at_s = view.now_at_s + RETRY_S

    def must_record(self, task: RescueTask) -> bool:
        """Return whether this program must still record the result. If another program holds the Lease, that program records it."""
        return task.needs_recording and not self._dry_run and self._lease.holder in ("", self._writer)

    def _key_of(self, task: RescueTask) -> str:
        """Return the key of the entry that counts the attempts. Once it exists, it does not change with the owner reference of the pod."""
        return rescue_attempts.existing_key(self._entries, task.uid, rescue_attempts.attempt_key(task.pod))

    def _read(self) -> None:
        self._set_entries(self._store.read())

    def _update(self, key: str, change: Change) -> None:
        """Write the entry that ``change`` returns for the newest entry of the key; None means no entry.

        Entries that are no longer needed are removed by the same write. After an error they are read again, because the write may have
        succeeded.
        """
        dropped: list[str] = []

        def change_all(data: Mapping[str, str]) -> Changes:
            now_s = self._api.now_s()
            entry = change(rescue_attempts.read_attempts(data, now_s=now_s).get(key))
            written = rescue_attempts.configmap_patch(data, key, entry, now_s=now_s)
            dropped[:] = written.dropped
            return written.changes

        was_loaded, self._is_loaded = self._is_loaded, False
        self._set_entries(self._store.update(change_all))
        self._is_loaded = was_loaded
        if dropped:
            shown = f"{', '.join(dropped[:MAX_NAMED_PODS])}{' and others' if len(dropped) > MAX_NAMED_PODS else ''}"
            self._observer.on_error(f"the ConfigMap is full: it no longer has the records of all attempts for {shown}")

    def _set_entries(self, data: Mapping[str, str]) -> None:
        self._entries = rescue_attempts.read_attempts(data, now_s=self._api.now_s())
        self._rescued_since_s = rescue_attempts.rescue_times_s(self._entries.values())
        self._cache.retain_deleted(self._rescued_since_s)

    # --- the attempts of programs that have ended, and the pods after their rescue ---

    def _record_results(self, key: str, there: Mapping[str, Pod], view: ReconcileView, tasks: Container[str]) -> t.Optional[AttemptRecord]:
        """Record the results in this entry that are known now. Return the entry with them."""

        def change(entry: t.Optional[AttemptRecord]) -> t.Optional[AttemptRecord]:
            return self._with_results(entry, there, view, tasks) if entry is not None else None

        known = self._entries.get(key)
        found = change(known)
        if found is not known and not self._dry_run and self._lease.held:
            self._update(key, change)
        return found

    def _pods_of(self, entries: Iterable[AttemptRecord], view: ReconcileView) -> dict[str, Pod]:
        """Return the existing pods that are under way or were rescued, by uid."""
        uids = {uid for entry in entries for uid in (*entry.under_way, *entry.rescued)}
        return {pod.metadata.uid: pod for pod in view.snapshot.pods if pod.metadata.uid in uids} if uids else {}

    def _with_results(
        self, entry: AttemptRecord, there: Mapping[str, Pod], view: ReconcileView, tasks: Container[str]
    ) -> t.Optional[AttemptRecord]:
        """Return the entry with the results that are known now. ``there``: the existing pods, by uid.

        An attempt for a pod that is still pending stays under way, because its rescue continues. The attempt for a pod that is gone has
        failed if pods were evicted for it, and is cancelled otherwise.
        """
        found: t.Optional[AttemptRecord] = entry
        for uid in entry.under_way:
            pod = there.get(uid)
            if uid in tasks or (pod is not None and not pod.spec.node_name):
                continue
            if pod is not None:
                name, pending = pod.metadata.full_name, _pending(view.snapshot)
                found = rescue_attempts.record_success(found, now_s=view.now_s, pod_uid=uid, name=name, pending=pending)
            elif entry.victims.get(uid):
                found = rescue_attempts.record_failure(found, now_s=view.now_s, pod_uid=uid, name=entry.name)
            else:
                found = rescue_attempts.cancel(found, now_s=view.now_s, pod_uid=uid)
        namespace = entry.name.partition("/")[0]
        for uid, since_s in rescue_attempts.rescue_times_s((entry,)).items():
            result = self._result_of(uid, namespace, since_s, there.get(uid), view.now_s)
            if result:
                found = rescue_attempts.record_result(found, result, now_s=view.now_s, pod_uid=uid)
        return found

    def _result_of(self, uid: str, namespace: str, since_s: float, pod: t.Optional[Pod], now_s: float) -> str:
        """Return the result of the pod that was bound at ``since_s``. Return an empty text if there is none yet."""
        if pod is None:
            last = self._cache.last_state(uid)
            if last is None:
                return self._result_by_events(uid, namespace, since_s, now_s)
            return LOST if has_lost_its_node(last, since_s, now_s) else COMPLETED
        if not (pod.terminal or pod.terminating):
            return KEPT if now_s >= since_s + LASTS_S else ""
        if has_lost_its_node(pod, since_s, now_s):
            return LOST
        return COMPLETED if pod.terminal else ""  # the watch may not show yet why the pod terminates

    def _result_by_events(self, uid: str, namespace: str, since_s: float, now_s: float) -> str:
        """Return the result of a pod whose end was not observed. Its Events tell whether it lost its node.

        If Events are forbidden, a pod that is gone within ``LASTS_S`` counts as lost.
        """
        until_s = since_s + LASTS_S
        try:
            events = [event for reason in LOSS_EVENTS for event in self._api.events_on(namespace, uid, reason=reason)]
        except ForbiddenError:
            return LOST if now_s < until_s else COMPLETED
        return LOST if any((read_time(event.last_seen) or -math.inf) <= until_s for event in events) else COMPLETED


def _pending(snapshot: ClusterSnapshot) -> set[str]:
    return {pod.metadata.uid for pod in snapshot.pending_pods}
