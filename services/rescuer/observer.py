# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An observer that logs and counts the actions of rescues."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence

from ...plugins.module_utils.model.api.node import Node
from ...plugins.module_utils.model.reason import Reason
from ...plugins.module_utils.model.undecodable import Undecodable
from ...plugins.module_utils.operations.rescue.controller import waited_s
from ...plugins.module_utils.operations.rescue.environment import RescueObserver
from ...plugins.module_utils.operations.rescue.task import RESCUED, RescueTask
from ...plugins.module_utils.rescue.plan import PLANNED, Victim
from ...plugins.module_utils.state.hold import Hold
from ..common.health import Health
from ..common.log import Log
from .metrics import RESULTS, Metrics

LOGGED_AGAIN_AFTER_S = 60.0


class LogObserver(RescueObserver):
    """Writes the log lines and the metrics of rescues. ``now_s``: the API server's clock.

    ``leading``: returns whether this process has the Lease. Finished rescues are counted only then, because each process sees them.
    """

    def __init__(self, log: Log, metrics: Metrics, health: Health, *, now_s: t.Callable[[], float], leading: t.Callable[[], bool]) -> None:
        self._log, self._metrics, self._health = log, metrics, health
        self._now_s, self._leading = now_s, leading
        self._pending_since: dict[str, float] = {}
        self._logged: dict[str, float] = {}
        self._undecodable: frozenset[tuple[str, str, str]] = frozenset()

    def on_planned(self, task: RescueTask, seconds: float) -> None:
        """Record the seconds for one plan."""
        self._health.heartbeat()
        self._metrics.planning.observe(seconds)
        self._pending_since.setdefault(task.uid, time.monotonic() - waited_s(task.unschedulable_since_s, self._now_s()))

    def on_plan_changed(self, task: RescueTask) -> None:
        """Log the new plan."""
        plan = _plan_of(task) if task.status == PLANNED else {}
        self._log.info("pod planned", pod=task.name, uid=task.uid, status=task.status, **_why(task.reason), **plan)

    def on_hold(self, node: Node, hold: Hold) -> None:
        """Log the hold."""
        self._log.info("node held", node=node.name, pod=hold.pod_name, uid=hold.uid, until=hold.deadline)

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        """Log and count the eviction."""
        self._metrics.evictions.inc()
        self._log.info(
            "pod evicted",
            pod=_pod_of(victim),
            priority=victim.priority,
            grace_period=victim.grace_period_s,
            node=victim.pod.spec.node_name,
            critical_pod=task.name,
            **_why(victim.reason),
        )

    def on_released(self, node: Node, hold: Hold) -> None:
        """Log the release."""
        self._log.info("node released", node=node.name, pod=hold.pod_name)

    def on_finished(self, task: RescueTask) -> None:
        """Log the end of the task. The leader also counts it.

        The leader counts the results of its own attempts, and the time without a node of each pod that was bound.
        """
        since_at_s = self._pending_since.pop(task.uid, None)
        seconds = time.monotonic() - since_at_s if since_at_s is not None else waited_s(task.unschedulable_since_s, self._now_s())
        if self._leading():
            if task.attempt_started and task.status in RESULTS:
                self._metrics.rescues.labels(task.status).inc()
            if task.status == RESCUED:
                self._metrics.bound.observe(seconds)
        evicted = [_pod_of(victim) for victim in task.evicted]
        self._log.info(
            "pod no longer waits",
            pod=task.name,
            uid=task.uid,
            status=task.status,
            **_why(task.reason),
            node=task.pod.spec.node_name or None,
            evicted=evicted,
            seconds=round(seconds, 3),
        )

    def undecodable(self, objects: Sequence[Undecodable]) -> None:
        """Count the objects that cannot be decoded. Each version of an object is logged once."""
        self._metrics.set_undecodable(one.kind for one in objects)
        versions = {(one.name, one.metadata.uid, one.metadata.resource_version): one for one in objects}
        for version, one in versions.items():
            if version not in self._undecodable:
                self._log.warning("object cannot be decoded", object=one.name, uid=one.metadata.uid, text=one.message)
        self._undecodable = frozenset(versions)

    def on_error(self, what: str) -> None:
        """Count the error. The same text is logged at most once a minute."""
        self._health.heartbeat()
        self._metrics.errors.inc()
        now_at_s = time.monotonic()
        self._logged = {text: at_s for text, at_s in self._logged.items() if now_at_s - at_s < LOGGED_AGAIN_AFTER_S}
        if what not in self._logged:
            self._logged[what] = now_at_s
            self._log.warning(what)

    def retain_only(self, uids: t.Container[str]) -> None:
        """Remove the pods that are no longer tasks and for which no task has finished."""
        for uid in [uid for uid in self._pending_since if uid not in uids]:
            del self._pending_since[uid]


def _plan_of(task: RescueTask) -> dict[str, t.Any]:
    choice = task.last_plan.choice if task.last_plan is not None else None
    return {} if choice is None else {"node": choice.node, "victims": [_pod_of(victim) for victim in choice.victims]}


def _pod_of(victim: Victim) -> str:
    return f"{victim.pod.metadata.namespace}/{victim.pod.metadata.name}"


def _why(reason: Reason | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason.code, "text": reason.text}
