# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The renewal of nominations, and the queue of rescues whose pods do not tolerate the taint of a hold.

The scheduler clears a nomination after each failed attempt to schedule the pod (kubernetes ``schedule_one.go``,
``clearNominatedNode``). Other pods can then use the capacity until the pod is nominated again, also critical pods that tolerate the taint.
The renewal therefore does not wait for any other work of the program: with 50 rescues at the same time, 8 of 58 cleared nodes were lost
without this, and 1 of 51 with it. While only a nomination reserves a node, no other rescue begins, because its taint and its evictions
would make the scheduler try the pod.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...rescue.critical import effective_priority
from ...rescue.options import NONE, RescueOptions
from ...rescue.plan import BY_NOMINATION, WAITING, RescuePlan
from ..common.leader_lease import LeaderLease
from .environment import ReconcileView
from .requests import nominate
from .task import QUEUED, WATCHED, Event, RescueTask

WAIT_S = 1.0
JOIN_S = 2.0
TURN_ENDS_WITHIN_S = 15.0
"""Seconds after the grace period of a victim for its end and the scheduler's next attempt at the pod."""


class _Kept(t.NamedTuple):
    """A nomination to renew. ``version`` is the resource version of the pod that was last nominated."""

    node: str
    version: str


class Nominator:
    """The nominations for the nodes that are being cleared. All methods may be called from any thread."""

    def __init__(self, api: KubeApi, cache: ClusterInformer, lease: LeaderLease) -> None:
        self._api, self._cache, self._lease = api, cache, lease
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._any = threading.Event()
        self._stopping = False

    def nominate(self, pod: Pod, node_name: str) -> bool:
        """Nominate the pod as given, and renew the nomination until ``drop``.

        Return False if that was not possible. Raise KubeError. Each version of the pod is nominated once, and the watch shows the result.
        """
        with self._lock:
            kept = self._kept.get(pod.metadata.uid)
            if kept is not None and kept == _Kept(node_name, pod.metadata.resource_version):
                return True
            return self._nominate(pod, node_name)

    def drop(self, uid: str) -> None:
        """Stop the renewal for the pod. This waits for a nomination that is being written, so that the caller can remove it."""
        with self._lock:
            self._kept.pop(uid, None)

    def drop_all(self) -> None:
        """Stop the renewal for all pods."""
        with self._lock:
            self._kept.clear()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the nominations in a thread while the block runs."""
        self._stopping = False
        thread = threading.Thread(target=self._run, name="nominations", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping = True
            self._any.set()
            thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._stopping:
            self._any.clear()  # before the check of ``_kept``, so that a later nomination is noticed
            if not self._kept:
                self._any.wait(WAIT_S)
                continue
            version = self._cache.version
            self.renew()
            try:
                self._cache.wait_for_change(version, WAIT_S)
            except KubeError:  # the caller of the rescue controller reports it
                time.sleep(WAIT_S)

    def renew(self) -> None:
        """Nominate each pod again whose nomination was cleared according to the watch."""
        for uid in list(self._kept):
            pod = self._cache.pod(uid)
            if pod is None or pod.spec.node_name or pod.status.nominated_node_name or pod.terminating:
                continue
            with self._lock:
                kept = self._kept.get(uid)
                if kept is None or kept.version == pod.metadata.resource_version or not self._lease.held:
                    continue
                try:
                    self._nominate(pod, kept.node)
                except KubeError:
                    self._kept.pop(uid, None)  # the next step of its rescue tries again and reports the error

    def _nominate(self, pod: Pod, node_name: str) -> bool:
        nominated = nominate(self._api, pod, node_name)
        if nominated:
            self._kept[pod.metadata.uid] = _Kept(node_name, pod.metadata.resource_version)
            self._any.set()
        return nominated


def queue_event(
    task: RescueTask, plan: RescuePlan, tasks: Iterable[RescueTask], options: RescueOptions, view: ReconcileView
) -> t.Optional[Event]:
    """Return the event if another rescue must end before the next eviction of the plan on the node of this task. None otherwise."""
    alone = task.clearing.nominates
    first = queue_violation(task, BY_NOMINATION if alone else None, tasks, options, view)
    return Event("another_first" if alone else "queued", replace(plan, reason=first)) if first is not None else None


def queue_violation(
    task: RescueTask, hold_method: t.Optional[str], tasks: Iterable[RescueTask], options: RescueOptions, view: ReconcileView
) -> t.Optional[Reason]:
    """Return the reason why another rescue must end before pods are evicted for this task. None if there is none.

    Taints and evictions for one pod make the scheduler try the other pods and clear their nominations. While only a nomination reserves
    a node, no other rescue begins.
    """
    if options.hold == NONE:
        return None
    hinders = _is_under_way if hold_method == BY_NOMINATION else _is_held_by_nomination
    first = next((other for other in tasks if other is not task and hinders(other, view)), None)
    if first is None:
        return _overdue_task_violation(task, tasks, options, view.now_at_s)
    return Reason(QUEUED, f"pod {first.name} is rescued first, because only a nomination reserves the capacity for one of the two pods")


def _overdue_task_violation(task: RescueTask, tasks: Iterable[RescueTask], options: RescueOptions, now_at_s: float) -> t.Optional[Reason]:
    """Return the reason why a pod that has waited for other rescues for its maximum time begins first. None if there is none.

    Without this rule, rescues of pods with the same or lower priority could delay that pod without end.
    """
    waiting = [one for one in tasks if one.stage == WATCHED and one.is_queued and one.has_waited(QUEUED, now_at_s)]
    if task.is_clearing or not waiting:
        return None
    priority = {one.uid: effective_priority(one.pod, options) for one in (task, *waiting)}
    first = min(waiting, key=lambda one: (-priority[one.uid], one.waits[QUEUED], one.name))
    if first is task or priority[task.uid] > priority[first.uid]:
        return None
    return Reason(QUEUED, f"pod {first.name} is rescued first, because it has waited for other rescues for a long time")


def _is_under_way(task: RescueTask, view: ReconcileView) -> bool:
    """Return whether its node is being cleared and victims must still be evicted or have not ended yet."""
    if not task.is_clearing:
        return False
    ends = [task.grace_ends_at_s[one.pod.metadata.uid] for one in task.evicted if one.pod.spec.node_name == task.clearing.node]
    return not ends or task.is_evicting_here or view.now_at_s <= max(ends) + TURN_ENDS_WITHIN_S or _has_victims_to_evict(task, view)


def _is_held_by_nomination(task: RescueTask, view: ReconcileView) -> bool:
    """Return whether only the nomination reserves the capacity while a victim on its node ends or its eviction is unanswered."""
    if not task.clearing.nominates:
        return False
    return (task.is_evicting_here or task.has_evicted_here) and _is_under_way(task, view)


def _has_victims_to_evict(task: RescueTask, view: ReconcileView) -> bool:
    """Return whether a planned victim must still be evicted. False if the pod fits without that."""
    if task.status == WAITING:
        return False
    left = task.plan_limit.victims.difference(victim.pod.metadata.uid for victim in task.evicted)
    return any(pod.metadata.uid in left and not (pod.terminating or pod.terminal) for pod in view.pods_on(task.clearing.node))
