# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules by which the rescuer takes the Lease and gives it up: only a program that can do the work keeps it."""

from __future__ import annotations

import time

from ...plugins.module_utils.kube.client.errors import (
    ApiError,
    ForbiddenError,
    ResponseDecodeError,
    UnreachableError,
)
from ...plugins.module_utils.operations.common.config_map_store import ConfigMapStore
from ...plugins.module_utils.operations.common.leader_lease import (
    ASKED_EVERY_S,
    LeaderLease,
    LeaseLostError,
)
from ...plugins.module_utils.operations.rescue.controller import RescueController
from ..common.log import Log
from ..common.signals import ShutdownSignal
from .observer import LogObserver

TEMPORARY = (ApiError, UnreachableError, ResponseDecodeError)
"""What may go away: a server that is not there, a role that is missing, a proxy that answers in the server's place.

Everything else that a cache or a look raises ends the program.
"""

CHECKED_EVERY_S = 10.0
"""How often a leader shows that it can write the ConfigMap. Without pods to rescue nothing else would tell."""
UNABLE_FOR_S = 30.0
"""After so long a time without a successful look the leader releases the Lease."""
EARLY_PAUSE_S = 0.2
"""Until the Lease is asked for again while the API server may have just started."""


class Leadership:
    """``leading``: this program has the Lease. ``trouble``: why the Lease cannot be asked for; ``away``: nobody answers."""

    def __init__(
        self,
        lease: LeaderLease,
        records: ConfigMapStore,
        controller: RescueController,
        *,
        log: Log,
        observer: LogObserver,
        shutdown: ShutdownSignal,
    ) -> None:
        self.leading = False
        self.error = ""
        self.api_unreachable = False
        self._lease, self._records, self._controller = lease, records, controller
        self._log, self._observer, self._shutdown = log, observer, shutdown
        self._holder = ""
        self._ask_at_s = 0.0
        self._problem = ""
        self._worked_at_s = 0.0
        self._checked_at_s = 0.0

    def start(self) -> None:
        """Ask for the Lease for the first time. Raises KubeError.

        An API server that has just started denies what it allows a moment later: that is waited for.
        """
        while not self._shutdown.stopping:
            try:
                self._take()
                return
            except ForbiddenError as error:
                if not error.early:
                    raise
            time.sleep(EARLY_PAUSE_S)

    def update(self) -> None:
        """Notice a lost Lease, give it up where the work cannot be done, and ask now and then for one that is not held."""
        now_at_s = time.monotonic()
        if self.leading and not self._lease.held:
            self.leading = False
            self._controller.abandon_holds()
            self._observer.on_error("the Lease is lost: another rescuer goes on with what was begun")
        if self.leading and now_at_s > self._worked_at_s + UNABLE_FOR_S:
            self._step_down()
        if self.leading or self._problem or now_at_s < self._ask_at_s:
            return
        try:
            self._take()
        except TEMPORARY as error:
            self.error, self.api_unreachable = str(error), isinstance(error, UnreachableError)
            self._observer.on_error(self.error)

    def check(self) -> None:
        """Show now and then that a leader can write what it has to remember. Raises KubeError."""
        now_at_s = time.monotonic()
        if self.leading and now_at_s >= self._checked_at_s + CHECKED_EVERY_S:
            self._records.ensure_writable()
            self._checked_at_s = now_at_s

    def on_reconciled(self, hindrance: str) -> None:
        """What has kept the last look from its work; empty where it was successful. With a hindrance the Lease is not asked for."""
        self._problem = hindrance
        if not hindrance:
            self._worked_at_s = time.monotonic()

    def stop(self) -> None:
        """Let others lead: immediately, or after the time of the Lease where an eviction of this program may still be carried out."""
        if not self.leading:
            return
        self.leading = False
        if self._controller.has_pending_evictions:
            self._log.warning("an eviction is not answered yet: the Lease ends by itself, and the next leader releases the nodes")
            self._lease.abandon()
        else:
            self._lease.release()

    def release_nodes(self) -> None:
        """Release the holds that this program has not finished; those of other programs stay for whoever leads next."""
        if not self._lease.held or self._controller.has_pending_evictions:
            return
        try:
            self._controller.release_own_holds()
            left = sorted(self._controller.still_held)
        except (LeaseLostError, *TEMPORARY) as error:
            self._observer.on_error(f"what is held is left to the next rescuer: {error}")
            return
        if left:
            self._log.error("nodes could not be given back; the next rescuer does it", nodes=left)

    def _step_down(self) -> None:
        why = self._problem or "no look at the cluster was successful"
        self._observer.on_error(f"the Lease is released, because this rescuer could not work for {UNABLE_FOR_S:.0f} s: {why}")
        self.release_nodes()
        self.stop()
        self._controller.abandon_holds()

    def _take(self) -> None:
        now_at_s = time.monotonic()
        self._ask_at_s = now_at_s + ASKED_EVERY_S
        self.leading = self._lease.acquire(0)
        self.error, self.api_unreachable = "", False
        if self.leading:
            self._worked_at_s = self._checked_at_s = now_at_s
            self._log.info("leading", identity=self._lease.holder)
        elif self._lease.holder != self._holder:
            self._log.info("following", leader=self._lease.holder)
        self._holder = self._lease.holder
