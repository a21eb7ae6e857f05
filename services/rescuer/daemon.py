# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The loop: look whenever something has changed, lead where the Lease is to be had, and leave nothing behind at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.attempts import RescueAttempts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.case import CLEARING
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.lease import RescueLease, identity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.record_store import RecordStore
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.request import missing_namespaces
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.rescuer import BLIND_S, Rescuer, in_time

from .leadership import TEMPORARY, Leadership
from .log import Log
from .metrics import Metrics
from .observer import Observer
from .orders import Orders
from .settings import Settings
from .watchdog import Watchdog

SLICE_S = 0.2
"""How soon a signal is seen."""
STEADY_S = (0.02, 0.5)
"""Changes come in bursts: so long a moment at least, and at most, lets the rest of one arrive before the next look."""
STEADY_FOR_EACH_S = 4.0
"""On a large and busy cluster each look takes longer: then there are fewer, and a core is free for most of the time."""


class Daemon:
    """One copy of the rescuer. ``cluster``: what its first line says of the cluster.

    ``run`` returns after an end in good order, and raises whatever keeps it from going on."""

    def __init__(
        self,
        settings: Settings,
        api: KubeApi,
        *,
        log: Log,
        metrics: Metrics,
        watchdog: Watchdog,
        orders: Orders,
        cluster: Mapping[str, str | None] | None = None,
    ) -> None:
        self._settings, self._log, self._metrics = settings, log, metrics
        self._cluster = cluster or {}
        self._watchdog, self._orders = watchdog, orders
        self._cache = ClusterInformer(api)
        writer = identity()
        self._lease = RescueLease(api, writer)
        hasty = in_time(api, self._lease)
        self._observer = Observer(log, metrics, watchdog, now_s=api.now_s, leading=lambda: self._leadership.leading)
        self._rescuer = Rescuer(
            hasty,
            self._cache,
            settings.rescue,
            lease=self._lease,
            attempts=RescueAttempts(hasty),
            writer=writer,
            witness=self._observer,
            dry_run=settings.dry_run,
            once=False,
            idle_s=settings.housekeeping_interval,
        )
        self._leadership = Leadership(self._lease, RecordStore(hasty), self._rescuer, log=log, observer=self._observer, orders=orders)
        self._hindrance = ""
        metrics.leader.set_function(lambda: self._lease.held)
        self._skipped: frozenset[str] = frozenset()
        self._missing = ""

    def run(self) -> None:
        """Work until the end is asked for.

        Raises ForbiddenError, UnauthorizedError, ConfigurationError and UnreachableError only before the first look; later those show in
        readiness. StoppedAtStartError after a signal in that time. ThreadDiedError, and any error of this program itself, at any time.
        """
        with self._orders.ending_at_once():
            self._cache.start()
        try:
            if not self._settings.dry_run:
                self._leadership.begin()
            self._log.info("watching the cluster", **self._cluster, leading=self._leadership.leading, dry_run=self._settings.dry_run)
            with self._rescuer.nominations.renewed():
                while not self._orders.stopping:
                    self._rest(*self._turn())
                self._stop()
        finally:
            self._watchdog.show(["it has ended"])
            self._leadership.end()
            self._cache.stop()

    # --- one turn ---

    def _turn(self) -> tuple[int, float, float]:
        """Do what can be done now; the version that was looked at, how long it can rest now, and how long it took."""
        self._orders.check()
        began_at_s, version = time.monotonic(), self._cache.version
        self._lead()
        blind = self._blind()
        # A Lease that could not be asked for is no hindrance: it is asked for again.
        self._hindrance = "; ".join(self._rescuer.blind)
        rest_s = BLIND_S if blind else self._look()
        self._leadership.note(self._hindrance)
        self._show(blind)
        self._watchdog.beat()
        return version, rest_s, time.monotonic() - began_at_s

    def _look(self) -> float:
        try:
            self._leadership.check()
            rest_s = self._rescuer.tick()
            self._hindrance = self._rescuer.hindrance
            snapshot = self._cache.snapshot()
            self._metrics.holds.set(len(self._rescuer.holds.on(snapshot)))
            self._metrics.ignored_marks.set(len(self._rescuer.holds.unproved))
        except TEMPORARY as error:
            self._hindrance = str(error)
            self._observer.troubled(self._hindrance)
            return BLIND_S
        self._observer.undecodable(snapshot.undecodable)
        for entry in snapshot.skipped:
            if entry.resource not in self._skipped:
                self._observer.troubled(f"{entry.resource} cannot be read: {entry.reason}")
        self._skipped = frozenset(entry.resource for entry in snapshot.skipped)
        missing = missing_namespaces(self._settings.rescue, snapshot)
        if missing and missing != self._missing:  # they may still come
            self._log.warning(missing)
        self._missing = missing
        self._observer.forget_all_but(self._rescuer.cases)
        return rest_s

    def _blind(self) -> list[str]:
        """What is not followed at the moment, of what nothing can be judged without; nothing is begun on what was true before."""
        texts = [self._leadership.trouble] if self._leadership.away else self._rescuer.blind
        return [self._with_credentials(text) for text in texts]

    def _show(self, blind: list[str]) -> None:
        self._metrics.show_pending(self._rescuer.cases.values())
        for text in blind:
            self._observer.troubled(text)
        for text in self._not_followed() if not blind else ():
            self._observer.troubled(text)
        stopping = ["it is being stopped"] if self._orders.stopping else []
        lease = [self._leadership.trouble] if self._leadership.trouble and not self._leadership.away else []
        hindered = [self._hindrance] if self._hindrance and not blind else []
        self._metrics.hindered.set(bool(blind or lease or hindered))
        self._watchdog.show([*blind, *hindered, *lease, *stopping])

    def _not_followed(self) -> list[str]:
        """What else is not followed at the moment, each cause once: what was true before goes on to count."""
        causes: dict[str, list[str]] = {}
        for name, error in self._cache.errors.items():
            # The text of the API's errors begins with what was asked for, such as: cannot list jobs in all namespaces.
            cause = error.partition(": ")[2] if error.startswith("cannot ") else error
            causes.setdefault(cause, []).append(name)
        return [self._with_credentials(f"{', '.join(names)} cannot be followed: {cause}") for cause, names in causes.items()]

    def _with_credentials(self, text: str) -> str:
        """Names the kubeconfig whose credentials the API server does not accept."""
        path = self._settings.kubeconfig
        return text.replace("certificate in use", f"certificate of kubeconfig {path}") if path else text

    def _lead(self) -> None:
        if not self._settings.dry_run:
            self._leadership.lead()

    def _rest(self, version: int, rest_s: float, busy_s: float) -> None:
        """Until something changes, the time is over, the Lease is won or lost, or the end is asked for."""
        end_at_s, leading = time.monotonic() + rest_s, self._leadership.leading
        while (left_s := end_at_s - time.monotonic()) > 0 and not self._orders.stopping:
            try:
                if self._cache.wait_for_change(version, min(SLICE_S, left_s)) != version:
                    break
            except TEMPORARY:
                time.sleep(min(SLICE_S, left_s))
            self._orders.check()
            self._leadership.note(self._hindrance)  # no look is due
            self._lead()
            self._watchdog.beat()
            if self._leadership.leading != leading:
                break
        else:
            busy_s = 0.0  # the time is over, and what is due does not wait for more
        least_s, most_s = STEADY_S
        time.sleep(min(most_s, max(least_s, busy_s * STEADY_FOR_EACH_S)))

    # --- the end ---

    def _stop(self) -> None:
        """Finish what is under way, as long as the time lasts; then release what is left of it.

        An eviction that may still be carried out is waited for in the same time: the next leader would not know of it.
        """
        self._rescuer.accepting = False
        self._log.info("stopping", leading=self._leadership.leading, at_work=self._rescuer.at_work)
        end_at_s = time.monotonic() + self._settings.stop_timeout
        while self._rescuer.at_work and time.monotonic() < end_at_s and not self._orders.in_haste:
            version, rest_s, _busy_s = self._turn()
            self._wait_for_change(version, min(rest_s, SLICE_S))
        unfinished = [case.name for case in self._rescuer.cases.values() if case.stage == CLEARING]
        if unfinished:
            self._log.warning("stopped before these pods were bound; what is held for them is given back", pods=unfinished)
        if self._rescuer.finish_evictions(end_at_s - time.monotonic(), hurried=lambda: self._orders.in_haste):
            self._leadership.release_nodes()
        self._log.info("stopped")

    def _wait_for_change(self, version: int, timeout_s: float) -> None:
        try:
            self._cache.wait_for_change(version, timeout_s)
        except TEMPORARY:
            time.sleep(timeout_s)
