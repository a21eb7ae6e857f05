# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The loop: look whenever something has changed, lead where the Lease is to be had, and leave nothing behind at the end."""

from __future__ import annotations

import time

from ...plugins.module_utils.actions.rescue.attempts import RescueAttempts
from ...plugins.module_utils.actions.rescue.case import CLEARING
from ...plugins.module_utils.actions.rescue.lease import ASKED_EVERY_S, LeaseLostError, RescueLease, identity
from ...plugins.module_utils.actions.rescue.request import missing_namespaces
from ...plugins.module_utils.actions.rescue.rescuer import BLIND_S, Rescuer, in_time
from ...plugins.module_utils.kube.api import KubeApi
from ...plugins.module_utils.kube.errors import ApiError, UnexpectedAnswerError, UnreachableError
from ...plugins.module_utils.kube.watch_cache import WatchCache
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

TEMPORARY = (ApiError, UnreachableError, UnexpectedAnswerError)
"""What may go away: a server that is not there, a role that is missing, a proxy that answers in the server's place.

Everything else that a cache or a look raises ends the program.
"""


class Daemon:
    """One copy of the rescuer. ``run`` returns after an end in good order, and raises whatever keeps it from going on."""

    def __init__(self, settings: Settings, api: KubeApi, *, log: Log, metrics: Metrics, watchdog: Watchdog, orders: Orders) -> None:
        self._settings, self._log, self._metrics = settings, log, metrics
        self._watchdog, self._orders = watchdog, orders
        self._cache = WatchCache(api)
        writer = identity()
        self._lease = RescueLease(api, writer)
        hasty = in_time(api, self._lease)
        self._observer = Observer(log, metrics, watchdog, now_s=api.now_s, leading=lambda: self._leading)
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
        )
        self._leading = False
        self._holder = ""
        self._ask_at_s = 0.0
        self._lease_trouble = ""
        self._away = False
        metrics.leader.set_function(lambda: self._lease.held)
        self._skipped: frozenset[str] = frozenset()
        self._missing = ""

    def run(self) -> None:
        """Work until the end is asked for.

        Raises ForbiddenError, UnauthorizedError, ConfigurationError and UnreachableError only before the first look; later those show in
        readiness. ThreadDiedError, and any error of this program itself, at any time.
        """
        self._cache.start()
        try:
            self._lead(at_the_start=True)
            self._log.info("following the cluster", leading=self._leading, dry_run=self._settings.dry_run)
            while not self._orders.stopping:
                self._rest(*self._turn())
            self._stop()
        finally:
            self._watchdog.show(["it has ended"])
            if self._leading:
                self._lease.release()
            self._cache.stop()

    # --- one turn ---

    def _turn(self) -> tuple[int, float, float]:
        """Do what can be done now; the version that was looked at, how long it can rest now, and how long it took."""
        self._orders.check()
        began_at_s, version = time.monotonic(), self._cache.version
        self._lead()
        blind = self._blind()
        rest_s = BLIND_S if blind else self._look()
        self._show(blind)
        self._watchdog.beat()
        return version, min(rest_s, self._settings.housekeeping_interval), time.monotonic() - began_at_s

    def _look(self) -> float:
        try:
            rest_s = self._rescuer.tick()
            snapshot = self._cache.snapshot()
            self._metrics.holds.set(len(self._rescuer.holds.on(snapshot)))
            self._metrics.ignored_marks.set(len(self._rescuer.holds.unproved))
        except TEMPORARY as error:
            self._observer.troubled(str(error))
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
        return [self._lease_trouble] if self._away else self._rescuer.blind

    def _show(self, blind: list[str]) -> None:
        self._metrics.show_pending(self._rescuer.cases.values())
        for text in blind:
            self._observer.troubled(text)
        syncing = [] if blind or self._cache.synced else [f"{name}: {error}" for name, error in self._cache.errors.items()]
        stopping = ["it is being stopped"] if self._orders.stopping else []
        lease = [self._lease_trouble] if self._lease_trouble and not self._away else []
        self._watchdog.show([*blind, *syncing, *lease, *stopping])

    def _rest(self, version: int, rest_s: float, busy_s: float) -> None:
        """Until something changes, the time is over, the Lease is won or lost, or the end is asked for."""
        end_at_s, leading = time.monotonic() + rest_s, self._leading
        while (left_s := end_at_s - time.monotonic()) > 0 and not self._orders.stopping:
            try:
                if self._cache.wait_for_change(version, min(SLICE_S, left_s)) != version:
                    break
            except TEMPORARY:
                time.sleep(min(SLICE_S, left_s))
            self._lead()
            if self._leading != leading:
                break
        else:
            busy_s = 0.0  # the time is over, and what is due does not wait for more
        least_s, most_s = STEADY_S
        time.sleep(min(most_s, max(least_s, busy_s * STEADY_FOR_EACH_S)))

    # --- leading and following ---

    def _lead(self, *, at_the_start: bool = False) -> None:
        """Notice a lost Lease, and ask for one that is not held now and then."""
        if self._settings.dry_run:
            return
        if self._leading and not self._lease.held:
            self._leading = False
            self._rescuer.let_go()
            self._observer.troubled("the Lease is lost: another rescuer goes on with what was begun")
        now_at_s = time.monotonic()
        if self._leading or now_at_s < self._ask_at_s:
            return
        self._ask_at_s = now_at_s + ASKED_EVERY_S
        try:
            self._leading = self._lease.acquire(0)
            self._lease_trouble, self._away = "", False
        except TEMPORARY as error:
            if at_the_start:
                raise
            self._lease_trouble, self._away = str(error), isinstance(error, UnreachableError)
            self._observer.troubled(str(error))
            return
        self._say_who_leads()

    def _say_who_leads(self) -> None:
        if self._leading:
            self._log.info("leading", identity=self._lease.holder)
        elif self._lease.holder != self._holder:
            self._log.info("following", leader=self._lease.holder)
        self._holder = self._lease.holder

    # --- the end ---

    def _stop(self) -> None:
        """Finish what is under way, as long as the time lasts; then release what is left of it."""
        self._rescuer.accepting = False
        self._log.info("stopping", leading=self._leading, at_work=self._rescuer.at_work)
        end_at_s = time.monotonic() + self._settings.stop_timeout
        while self._rescuer.at_work and time.monotonic() < end_at_s and not self._orders.in_haste:
            version, rest_s, _busy_s = self._turn()
            self._wait_for_change(version, min(rest_s, SLICE_S))
        unfinished = [case.name for case in self._rescuer.cases.values() if case.stage == CLEARING]
        if unfinished:
            self._log.warning("stopped before these pods were bound; what is held for them is given back", pods=unfinished)
        if self._leading and self._lease.held:
            self._give_back()
        self._log.info("stopped")

    def _wait_for_change(self, version: int, timeout_s: float) -> None:
        try:
            self._cache.wait_for_change(version, timeout_s)
        except TEMPORARY:
            time.sleep(timeout_s)

    def _give_back(self) -> None:
        """Release the holds that this program has not finished; those of other programs stay for whoever leads next."""
        try:
            self._rescuer.let_go_of_nodes()
            left = sorted(self._rescuer.still_held)
        except (LeaseLostError, *TEMPORARY) as error:
            self._observer.troubled(f"what is held is left to the next rescuer: {error}")
            return
        if left:
            self._log.error("nodes could not be given back; the next rescuer does it", nodes=left)
