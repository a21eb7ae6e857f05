# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An observer that logs and counts the actions of rescues."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence

from ...plugins.module_utils.model.reason import Reason
from ...plugins.module_utils.model.undecodable import Undecodable
from ...plugins.module_utils.operations.rescue.environment import RescueObserver
from ...plugins.module_utils.operations.rescue.task import RESCUED, RescueTask
from ...plugins.module_utils.rescue.held_nodes import HeldNode
from ...plugins.module_utils.rescue.plan import PLANNED, Victim
from ..common.health import Health
from ..common.log import Log
from .metrics import RESULTS, Metrics

LOGGED_AGAIN_AFTER_S = 60.0


class LogObserver(RescueObserver):
    """Writes the log lines and the metrics of rescues.

    ``leading``: returns whether this process has the Lease. Finished rescues are counted only then, because each process sees them.
    """

    def __init__(self, log: Log, metrics: Metrics, health: Health, *, leading: t.Callable[[], bool], kubeconfig: str | None) -> None:
        self._log, self._metrics, self._health = log, metrics, health
        self._leading, self._kubeconfig = leading, kubeconfig
        self._logged: dict[str, float] = {}
        self._undecodable: frozenset[tuple[str, str, str]] = frozenset()

    def on_planned(self, _task: RescueTask, seconds: float) -> None:
        """Record the seconds for one plan."""
        self._health.heartbeat()
        self._metrics.planning.observe(seconds)

    def on_plan_changed(self, task: RescueTask) -> None:
        """Log the new plan."""
        plan = _plan_of(task) if task.status == PLANNED else {}
        self._log.info("pod planned", pod=task.name, uid=task.uid, status=task.status, **_why(task.reason), **plan)

    def on_hold(self, held: HeldNode) -> None:
        """Log the hold."""
        self._log.info("node held", node=held.node.name, pod=held.pod_name, uid=held.uid, until=held.hold.deadline)

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        """Log and count the eviction."""
        self._metrics.evictions.inc()
        self._log.info(
            "pod evicted",
            pod=victim.pod.metadata.full_name,
            priority=victim.priority,
            grace_period=victim.grace_period_s,
            node=victim.pod.spec.node_name,
            critical_pod=task.name,
            **_why(victim.reason),
        )

    def on_released(self, held: HeldNode) -> None:
        """Log the release."""
        self._log.info("node released", node=held.node.name, pod=held.pod_name)

    def on_finished(self, task: RescueTask) -> None:
        """Log the end of the task. The leader also counts it.

        The leader counts the results of its own attempts, and the time without a node of each pod that was bound.
        """
        seconds = time.monotonic() - task.waits_since_at_s
        if self._leading():
            if task.attempt_started and task.status in RESULTS:
                self._metrics.rescues.labels(task.status).inc()
            if task.status == RESCUED:
                self._metrics.bound.observe(seconds)
        evicted = [victim.pod.metadata.full_name for victim in task.evicted]
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
        what = self.text_of(what)
        self._health.heartbeat()
        self._metrics.errors.inc()
        now_at_s = time.monotonic()
        self._logged = {text: at_s for text, at_s in self._logged.items() if now_at_s - at_s < LOGGED_AGAIN_AFTER_S}
        if what not in self._logged:
            self._logged[what] = now_at_s
            self._log.warning(what)

    def text_of(self, what: str) -> str:
        """Return the error with the path of the kubeconfig whose credentials the API server does not accept."""
        return what.replace("certificate in use", f"certificate of kubeconfig {self._kubeconfig}") if self._kubeconfig else what


def _plan_of(task: RescueTask) -> dict[str, t.Any]:
    choice = task.last_plan.choice if task.last_plan is not None else None
    return {} if choice is None else {"node": choice.node, "victims": [victim.pod.metadata.full_name for victim in choice.victims]}


def _why(reason: Reason | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason.code, "text": reason.text}
