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
from collections.abc import Container, Mapping
from functools import partial

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, ForbiddenError, KubeError, is_transient
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod, PodSpec
from ...model.reason import Reason, reason_message
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import parse_time, read_time
from ...rescue.plan import Victim
from ...rescue.victims.pod_traits import own_grace_period_s
from ...state.rescue_attempts import (
    COMPLETED,
    KEPT,
    LASTS_S,
    LOST,
    AttemptRecord,
    VictimRecord,
    cancel,
    configmap_patch,
    existing_key,
    read_attempts,
    record_failure,
    record_result,
    record_success,
    record_victims,
    rescue_times_s,
    start,
)
from ..common.config_map_store import NAME, NAMESPACE, Changes, ConfigMapStore
from ..common.event_recorder import EventRecorder
from .environment import ReconcileView, RescueEnvironment
from .task import FAILED, RESCUED, RescueTask

Change = t.Callable[[t.Optional[AttemptRecord]], t.Optional[AttemptRecord]]


class AttemptStore:
    """Stores the entries of ``state/rescue_attempts.py`` in the ConfigMap ``namespace``/``name``, which the first write creates.

    Only tests use another namespace or name: all programs of a cluster share one ConfigMap. ``dropped`` has the names of entries that were
    shortened or removed for lack of space. The caller clears it.
    """

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self.dropped: list[str] = []
        self._api = api
        self._store = ConfigMapStore(api, name=name, namespace=namespace)

    def read(self) -> dict[str, AttemptRecord]:
        """Return the attempts by key, without entries that cannot be read, such as manual changes.

        Raise ForbiddenError, UnreachableError, ApiError.
        """
        return read_attempts(self._store.read(), now_s=self._api.now_s())

    def update(self, key: str, change: Change) -> t.Optional[AttemptRecord]:
        """Write the entry that ``change`` returns for the newest entry of the key, and return it; None means no entry.

        Entries that are no longer needed are removed by the same write. Raise the errors of ``ConfigMapStore.update``.
        """
        dropped: list[str] = []

        def change_all(data: Mapping[str, str]) -> Changes:
            now_s = self._api.now_s()
            written = configmap_patch(data, key, change(read_attempts(data, now_s=now_s).get(key)), now_s=now_s)
            dropped[:] = written.dropped
            return written.changes

        after = self._store.update(change_all)
        self.dropped += dropped
        return read_attempts(after, now_s=self._api.now_s()).get(key)


def record_leftover_results(attempts: AttemptStore, snapshot: ClusterSnapshot, tasks: Container[str], *, now_s: float) -> None:
    """Record the result of each attempt in progress for a pod that needs no rescue any more and has no task here.

    ``tasks`` are the UIDs of the pods with a task of this program. An attempt for a pod that is still pending stays in progress, because
    its rescue continues. The attempt for a pod that is gone has failed if pods were evicted for it, and is cancelled otherwise. Raise
    KubeError.
    """
    left = {key: [uid for uid in entry.under_way if uid not in tasks] for key, entry in attempts.read().items()}
    if not any(left.values()):
        return
    bound = {pod.metadata.uid: f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in snapshot.pods if pod.spec.node_name}
    pending = {pod.metadata.uid for pod in snapshot.pods if not pod.spec.node_name}
    for key, uids in left.items():
        ended = [uid for uid in uids if uid not in pending]

        def change(entry: t.Optional[AttemptRecord], ended: list[str] = ended) -> t.Optional[AttemptRecord]:
            for uid in ended:
                if entry is None or uid not in entry.under_way:
                    continue  # another program was faster
                if uid in bound:
                    entry = record_success(entry, now_s=now_s, pod_uid=uid, name=bound[uid], pending=pending)
                elif entry.victims.get(uid):
                    entry = record_failure(entry, now_s=now_s, pod_uid=uid, name=entry.name)
                else:
                    entry = cancel(entry, now_s=now_s, pod_uid=uid)
            return entry

        if ended:
            attempts.update(key, change)


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


class _Rescue(t.NamedTuple):
    """A rescued pod.

    ``key`` is the key of the attempt entry that counts it. ``since_s`` is the time of its binding, by the API server's clock.
    """

    key: str
    namespace: str
    since_s: float


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


RETRY_S = 2.0
"""Seconds until the next try after a failed write."""
MAX_NAMED_PODS = 5
"""Limit of pods in one message."""


class AttemptRecorder:
    """Records the attempts of tasks. All methods that write raise KubeError, except ``try_to_record_outcome`` and ``reconcile``."""

    def __init__(self, environment: RescueEnvironment, attempts: AttemptStore, events: EventRecorder) -> None:
        self._attempts, self._lease, self._writer = attempts, environment.lease, environment.writer
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._events = events
        self._api, self._cache = environment.api, environment.cache
        self._open: dict[str, _Rescue] = {}  # the rescued pods without a result, of which only the leader knows all
        # The rescued pods of the ConfigMap as last read or written, by uid, with the time of their binding.
        self._rescued_since_s: dict[str, float] = {}
        self._is_loaded = False
        self._due_at_s = 0.0

    def load(self, task: RescueTask) -> t.Optional[AttemptRecord]:
        """Return the entry that counts the attempts for the pod."""
        entries = self._read()
        task.key = existing_key(entries, task.uid, task.key)
        return entries.get(task.key)

    def rescued_pods(self, now_s: float) -> frozenset[str]:
        """Return the uids of the pods that any program has rescued in the last ``LASTS_S`` seconds, by the records as last read."""
        return frozenset(uid for uid, since_s in self._rescued_since_s.items() if now_s < since_s + LASTS_S)

    def record_start(self, task: RescueTask, victim: Victim, view: ReconcileView) -> None:
        """Record that the rescue is in progress, with the evicted pods and the next victim."""
        uid = victim.pod.metadata.uid
        victims = [*task.evicted, *(one for known, one in task.uncertain_evictions.items() if known != uid), victim]
        records = [record_of(one) for one in victims]

        def change(entry: t.Optional[AttemptRecord]) -> AttemptRecord:
            entry = start(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name)
            return record_victims(entry, pod_uid=task.uid, victims=records)

        self._attempts.update(task.key, change)
        task.attempt_started, task.recorded_victims = True, frozenset(one.pod.metadata.uid for one in victims)

    def with_results(self, task: RescueTask, attempt: t.Optional[AttemptRecord], view: ReconcileView) -> t.Optional[AttemptRecord]:
        """Return the attempt with the results of the pods that were rescued before: each has kept or lost its node, or has completed."""
        found, rescues = attempt, _rescues(task.key, attempt)
        there = _by_uid(view.snapshot, rescues) if rescues else {}
        for uid, rescue in rescues.items():
            result = self._result_of(uid, rescue, there.get(uid), view.now_s)
            if result:
                found = record_result(found, result, now_s=view.now_s, pod_uid=uid)
        if found != attempt and not self._dry_run:
            self._lease.ensure_held()
            self._watch(task.key, attempt)
            self._record_results(view.snapshot, view.now_s)
        return found

    def load_victims(self, task: RescueTask, attempt: t.Optional[AttemptRecord]) -> bool:
        """Load the pods that another program may have evicted for the task. Return whether there are any."""
        if task.loaded:
            return False
        if attempt is not None and task.uid in attempt.under_way and not self._dry_run:
            task.attempt_started = True
        return task.load_victims(map(victim_of, attempt.victims.get(task.uid, ()) if attempt is not None else ()))

    def record_outcome(self, task: RescueTask, view: ReconcileView) -> None:
        """Record the result of the attempt."""
        pending = {pod.metadata.uid for pod in view.snapshot.pods if not pod.spec.node_name}

        def change(entry: t.Optional[AttemptRecord]) -> t.Optional[AttemptRecord]:
            if task.status == RESCUED:
                return record_success(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name, pending=pending)
            if task.status != FAILED and not task.evicted:
                return cancel(entry, now_s=view.now_s, pod_uid=task.uid)
            return record_failure(entry, now_s=view.now_s, pod_uid=task.uid, name=task.name)

        entry = self._attempts.update(task.key, change)
        self._watch(task.key, entry)
        if entry is not None:
            self._rescued_since_s.update(rescue_times_s((entry,)))

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

    def reconcile(self, view: ReconcileView, tasks: Mapping[str, RescueTask]) -> None:
        """Correct the ConfigMap entries of ended programs, and record which rescued pods have kept their nodes.

        Only the leader does this. The first part is done once after the Lease was acquired.
        """
        if not self._lease.held:
            self._is_loaded = False
            return
        if self._dry_run or view.now_at_s < self._due_at_s:
            return
        try:
            if not self._is_loaded:
                record_leftover_results(self._attempts, view.snapshot, tasks, now_s=view.now_s)
                self._watch_only(self._read())
                self._is_loaded = True
            self._record_results(view.snapshot, view.now_s)
        except KubeError as error:
            self._observer.on_error(f"attempts in the ConfigMap may be out of date: {error}")
            self._due_at_s = view.now_at_s + RETRY_S
        names = self._attempts.dropped
        if names:
            shown = f"{', '.join(names[:MAX_NAMED_PODS])}{' and others' if len(names) > MAX_NAMED_PODS else ''}"
            self._observer.on_error(f"the ConfigMap is full: it no longer has the records of all attempts for {shown}")
            names.clear()

    def must_record(self, task: RescueTask) -> bool:
        """Return whether this program must still record the result. If another program holds the Lease, that program records it."""
        return task.needs_recording and not self._dry_run and self._lease.holder in ("", self._writer)

    def _read(self) -> dict[str, AttemptRecord]:
        entries = self._attempts.read()
        self._rescued_since_s = rescue_times_s(entries.values())
        return entries

    # --- the pods after their rescue ---

    def _watch_only(self, entries: Mapping[str, AttemptRecord]) -> None:
        """Watch the rescued pods of these entries, and no others."""
        self._open = {}
        for key, entry in entries.items():
            self._watch(key, entry)
        self._cache.retain_deleted(self._open)

    def _watch(self, key: str, entry: t.Optional[AttemptRecord]) -> None:
        """Watch the rescued pods of this entry in addition."""
        for uid, rescue in _rescues(key, entry).items():
            self._open.setdefault(uid, rescue)
        self._cache.retain_deleted(self._open)

    def _record_results(self, snapshot: ClusterSnapshot, now_s: float) -> None:
        """Record the pods that have lost or kept their node, or have completed, since the last check. Raise KubeError.

        The next check repeats a failed write.
        """
        if not self._open:
            return
        there = _by_uid(snapshot, self._open)
        for uid, rescue in list(self._open.items()):
            result = self._result_of(uid, rescue, there.get(uid), now_s)
            if result:
                self._attempts.update(rescue.key, partial(record_result, result=result, now_s=now_s, pod_uid=uid))
                del self._open[uid]
        self._cache.retain_deleted(self._open)

    def _result_of(self, uid: str, rescue: _Rescue, pod: t.Optional[Pod], now_s: float) -> str:
        """Return the result of the pod. Return an empty text if there is none yet."""
        if pod is None:
            last = self._cache.last_state(uid)
            if last is None:
                return self._result_by_events(uid, rescue, now_s)
            return LOST if has_lost_its_node(last, rescue.since_s, now_s) else COMPLETED
        if not (pod.terminal or pod.terminating):
            return KEPT if now_s >= rescue.since_s + LASTS_S else ""
        if has_lost_its_node(pod, rescue.since_s, now_s):
            return LOST
        return COMPLETED if pod.terminal else ""  # the watch may not show yet why the pod terminates

    def _result_by_events(self, uid: str, rescue: _Rescue, now_s: float) -> str:
        """Return the result of a pod whose end was not observed. Its Events tell whether it lost its node.

        If Events are forbidden, a pod that is gone within ``LASTS_S`` counts as lost.
        """
        until_s = rescue.since_s + LASTS_S
        try:
            events = [event for reason in LOSS_EVENTS for event in self._api.events_on(rescue.namespace, uid, reason=reason)]
        except ForbiddenError:
            return LOST if now_s < until_s else COMPLETED
        return LOST if any((read_time(event.last_seen) or -math.inf) <= until_s for event in events) else COMPLETED
