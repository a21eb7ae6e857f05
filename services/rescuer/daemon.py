# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The main loop of the rescuer.

It reconciles whenever something has changed, leads if it can acquire the Lease, and releases its holds at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.operations.common.config_map_store import ConfigMapStore
from ...plugins.module_utils.operations.rescue.controller import STALE_RETRY_S, RescueController
from ...plugins.module_utils.operations.rescue.environment import open_environment
from ...plugins.module_utils.rescue.options import missing_namespaces
from ..common.health import Health
from ..common.leadership import TEMPORARY, Leadership
from ..common.log import Log
from ..common.signals import ShutdownSignal
from .metrics import Metrics
from .observer import LogObserver
from .settings import PROGRAM, Settings

SLICE_S = 0.2
"""The longest time in seconds until a signal is noticed."""
STEADY_S = (0.02, 0.5)
"""Changes come in bursts. The least and the most seconds to wait for the rest of a burst before the next reconciliation."""
STEADY_FOR_EACH_S = 4.0
"""The wait in seconds for each second of the last reconciliation.

In a large and busy cluster each reconciliation takes longer. Then there are fewer of them, and a core is free for most of the time.
"""


class Reconciliation(NamedTuple):
    """The result of one reconciliation: the version of the state, the seconds until the next one is due, and the duration."""

    version: int
    requeue_after_s: float
    duration_s: float


class Daemon:
    """One process of the rescuer. ``cluster``: the fields about the cluster in the first log line.

    ``run`` returns after an orderly end, and raises each error that prevents the program from continuing.
    """

    def __init__(
        self,
        settings: Settings,
        api: KubeApi,
        *,
        log: Log,
        metrics: Metrics,
        health: Health,
        shutdown: ShutdownSignal,
        cluster: Mapping[str, str | None] | None = None,
    ) -> None:
        self._settings, self._api, self._log, self._metrics = settings, api, log, metrics
        self._cluster = cluster or {}
        self._health, self._shutdown_signal = health, shutdown
        self._observer = LogObserver(log, metrics, health, leading=lambda: self._leadership.leading, kubeconfig=settings.kubeconfig)
        environment = open_environment(api, settings.rescue, self._observer, dry_run=settings.dry_run)
        self._cache, self._lease = environment.cache, environment.lease
        store = ConfigMapStore(environment.api)
        self._controller = RescueController(environment, store, once=False, idle_s=settings.housekeeping_interval)
        self._leadership = Leadership(
            self._lease, store, self._controller, name=PROGRAM.name, log=log, on_error=self._observer.on_error, shutdown=shutdown
        )
        self._problem = ""
        metrics.leader.set_function(lambda: self._lease.held)
        metrics.dry_run.set(settings.dry_run)
        self._known_gaps: set[str] = set()

    def run(self) -> None:
        """Work until the end is requested.

        Raises ForbiddenError, UnauthorizedError, ConfigurationError and UnreachableError only before the first reconciliation. Later these
        errors make the program unready. Raises StoppedAtStartError after a signal in that time. Raises ThreadDiedError, and any error of
        this program itself, at any time.
        """
        with self._shutdown_signal.stop_raises():
            self._cache.start()
        try:
            self._log.info("watching the cluster", **self._cluster, dry_run=self._settings.dry_run)
            if not self._settings.dry_run:
                self._leadership.start()
            with self._controller.nominations.renewed():
                while not self._shutdown_signal.stopping:
                    self._wait(self._reconcile_once())
                self._shutdown()
        finally:
            self._health.set_unready(["it has ended"])
            self._leadership.stop()
            self._cache.stop()

    # --- one reconciliation ---

    def _reconcile_once(self) -> Reconciliation:
        self._shutdown_signal.raise_thread_errors()
        began_at_s, version = time.monotonic(), self._cache.version
        self._update_leadership()
        if self._leadership.api_unreachable:  # the Lease is requested again, so that this is no problem of the reconciliation
            self._problem, requeue_after_s = "; ".join(self._controller.stale_resources), STALE_RETRY_S
        else:
            requeue_after_s = self._reconcile()
        self._leadership.on_reconciled(self._problem)
        self._report_state()
        self._health.heartbeat()
        return Reconciliation(version, requeue_after_s, time.monotonic() - began_at_s)

    def _reconcile(self) -> float:
        try:
            requeue_after_s = self._controller.reconcile()
            self._problem = self._controller.problem
            if self._problem:
                return requeue_after_s
            self._leadership.ensure_writable()
            snapshot = self._cache.snapshot()
        except TEMPORARY as error:
            self._problem = str(error)
            self._observer.on_error(self._problem)
            return STALE_RETRY_S
        self._metrics.set_holds([held.hold for held in self._controller.holds.active(snapshot, self._controller.tasks)], self._api.now_s)
        self._observer.undecodable(snapshot.undecodable)
        gaps = {f"{entry.resource} cannot be read: {entry.reason}" for entry in snapshot.skipped}
        gaps.add(missing_namespaces(self._settings.rescue, snapshot))  # they may be created later
        gaps.discard("")
        for text in sorted(gaps - self._known_gaps):
            self._observer.on_error(text)
        self._known_gaps = gaps
        return requeue_after_s

    def _report_state(self) -> None:
        self._metrics.set_pending(self._controller.tasks.values())
        for text in self._stale_optional_resources() if not self._problem else ():
            self._observer.on_error(text)
        stopping = ["it is being stopped"] if self._shutdown_signal.stopping else []
        problems = [self._observer.text_of(text) for text in (self._problem, self._leadership.error) if text]
        self._metrics.unready.set(bool(problems))
        self._health.set_unready([*problems, *stopping])

    def _stale_optional_resources(self) -> list[str]:
        """Return the errors of the other resources that are not up to date, each cause once. Their last state continues to count."""
        causes: dict[str, list[str]] = {}
        for name, error in self._cache.errors.items():
            # The text of an API error begins with the request, such as: cannot list jobs in all namespaces.
            cause = error.partition(": ")[2] if error.startswith("cannot ") else error
            causes.setdefault(cause, []).append(name)
        return [f"{', '.join(names)} cannot be watched: {cause}" for cause, names in causes.items()]

    def _update_leadership(self) -> None:
        if not self._settings.dry_run:
            self._leadership.update()

    def _wait(self, last: Reconciliation) -> None:
        """Wait until something changes, the time is over, the Lease is acquired or lost, or the end is requested."""
        end_at_s, leading = time.monotonic() + last.requeue_after_s, self._leadership.leading
        busy_s = last.duration_s
        while (left_s := end_at_s - time.monotonic()) > 0 and not self._shutdown_signal.stopping:
            if self._has_changed(last.version, min(SLICE_S, left_s)):
                break
            self._shutdown_signal.raise_thread_errors()
            self._leadership.on_reconciled(self._problem)  # no reconciliation is due
            self._update_leadership()
            self._health.heartbeat()
            if self._leadership.leading != leading:
                break
        else:
            busy_s = 0.0  # the time is over, and the due work does not wait for more changes
        least_s, most_s = STEADY_S
        time.sleep(min(most_s, max(least_s, busy_s * STEADY_FOR_EACH_S)))

    # --- the end ---

    def _shutdown(self) -> None:
        """Finish the current work within ``stop_timeout``, then release the holds that are left.

        The same time limits the wait for evictions that may still be carried out, because the next leader does not know of them.
        """
        self._controller.accepts_new = False
        self._log.info("stopping", leading=self._leadership.leading, clearing=bool(self._controller.clearing))
        end_at_s = time.monotonic() + self._settings.stop_timeout
        while self._controller.clearing and time.monotonic() < end_at_s and not self._shutdown_signal.force:
            last = self._reconcile_once()
            self._has_changed(last.version, min(last.requeue_after_s, SLICE_S))
        unfinished = [task.name for task in self._controller.clearing]
        if unfinished:
            self._log.warning("stopped before these pods were bound; their nodes are released", pods=unfinished)
        if self._controller.finish_evictions(end_at_s - time.monotonic(), hurried=lambda: self._shutdown_signal.force):
            self._leadership.hand_over()
        self._log.info("stopped")

    def _has_changed(self, version: int, timeout_s: float) -> bool:
        """Wait for a change. Return whether there was one."""
        try:
            return self._cache.wait_for_change(version, timeout_s) != version
        except TEMPORARY:
            time.sleep(timeout_s)
            return False
