# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The attempts of the tasks of one program: their start, their victims and their result in the ConfigMap."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ....kube.client.errors import ConflictError, KubeError, is_transient
from ....model.reason import reason_message
from ....rescue.plan import Victim
from ....state.rescue_attempts import (
    LASTS_S,
    AttemptRecord,
    cancel,
    record_failure,
    record_success,
    record_victims,
    rescue_times_s,
    start,
)
from ...common.event_recorder import EventRecorder
from ..environment import RescueEnvironment
from ..reconcile_view import ReconcileView
from ..task import FAILED, RESCUED, RescueTask
from .attempt_store import record_leftover_results, record_of, victim_of
from .rescued_pods import RescuedPodTracker

RETRY_S = 2.0
"""Seconds until the next try after a failed write."""
MAX_NAMED_PODS = 5
"""Limit of pods in one message."""


class AttemptRecorder:
    """Records the attempts of tasks. All methods that write raise KubeError, except ``try_to_record_outcome`` and ``reconcile``."""

    def __init__(self, environment: RescueEnvironment, events: EventRecorder) -> None:
        self._attempts, self._lease, self._writer = environment.attempts, environment.lease, environment.writer
        self._observer, self._dry_run = environment.observer, environment.dry_run
        self._events = events
        self._rescued = RescuedPodTracker(environment.api, environment.cache, environment.attempts)
        # The rescued pods of the ConfigMap as last read or written, by uid, with the time of their binding.
        self._rescued_since_s: dict[str, float] = {}
        self._is_loaded = False
        self._due_at_s = 0.0

    def load(self, task: RescueTask) -> t.Optional[AttemptRecord]:
        """Return the entry that counts the attempts for the pod."""
        return task.find_attempt(self._read())

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
        task.note_recorded_victims(victims)

    def with_results(self, task: RescueTask, attempt: t.Optional[AttemptRecord], view: ReconcileView) -> t.Optional[AttemptRecord]:
        """Return the attempt with the results of the pods that were rescued before: each has kept or lost its node, or has completed."""
        found = self._rescued.with_results(task.key, attempt, view.snapshot, view.now_s)
        if found != attempt and not self._dry_run:
            self._lease.ensure_held()
            self._rescued.watch(task.key, attempt)
            self._rescued.record_results(view.snapshot, view.now_s)
        return found

    def load_victims(self, task: RescueTask, attempt: t.Optional[AttemptRecord]) -> bool:
        """Load the pods that another program may have evicted for the task. Return whether there are any."""
        if task.loaded:
            return False
        if attempt is not None and task.uid in attempt.under_way and not self._dry_run:
            task.note_attempt()
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
        self._rescued.watch(task.key, entry)
        if entry is not None:
            self._rescued_since_s.update(rescue_times_s((entry,)))

    def try_to_record_outcome(self, task: RescueTask, view: ReconcileView) -> None:
        """Record the result of the attempt if that is due. A write that may succeed later is tried again."""
        if not task.needs_recording or view.now_at_s < task.retry_at_s:
            return
        try:
            self.record_outcome(task, view)
        except KubeError as error:
            self._observer.on_error(f"{task.name}: the result of the attempt could not be written: {error}")
            if is_transient(error) or isinstance(error, ConflictError):
                task.retry_at(view.now_at_s + RETRY_S)
                return
        task.note_recorded_outcome()
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
                self._rescued.load(self._read())
                self._is_loaded = True
            self._rescued.record_results(view.snapshot, view.now_s)
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
