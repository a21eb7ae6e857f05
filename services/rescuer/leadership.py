# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules by which the rescuer acquires and releases the Lease. Only a program that can do the work keeps it."""

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
"""Errors that can disappear: an unreachable server, a missing role, a proxy that answers instead of the server.

Every other error of the informer or of a reconciliation ends the program.
"""

CHECKED_EVERY_S = 10.0
"""The interval in seconds at which a leader checks that it can write the ConfigMap. Without pods to rescue nothing else would show it."""
UNABLE_FOR_S = 30.0
"""Seconds without a successful reconciliation after which the leader releases the Lease."""
EARLY_PAUSE_S = 0.2
"""Seconds between requests for the Lease while the API server may have just started."""


class Leadership:
    """The state of this program's leadership.

    ``leading``: this program has the Lease. ``error``: the reason why the request for the Lease failed, or empty. ``api_unreachable``: the
    request failed without an answer.
    """

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
        """Request the Lease for the first time. Raises KubeError.

        An API server that has just started denies requests that it allows a moment later. Then the request is repeated.
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
        """Detect a lost Lease, release the Lease if this program cannot work, and regularly request a Lease that it does not hold."""
        now_at_s = time.monotonic()
        if self.leading and not self._lease.held:
            self.leading = False
            self._controller.abandon_holds()
            self._observer.on_error("the Lease is lost: the next leader continues the rescues")
        if self.leading and now_at_s > self._worked_at_s + UNABLE_FOR_S:
            self._step_down()
        if self.leading or self._problem or now_at_s < self._ask_at_s:
            return
        try:
            self._take()
        except TEMPORARY as error:
            self.error, self.api_unreachable = str(error), isinstance(error, UnreachableError)
            self._observer.on_error(self.error)

    def ensure_writable(self) -> None:
        """Check every ``CHECKED_EVERY_S`` seconds that a leader can write the ConfigMap. Raises KubeError."""
        now_at_s = time.monotonic()
        if self.leading and now_at_s >= self._checked_at_s + CHECKED_EVERY_S:
            self._records.ensure_writable()
            self._checked_at_s = now_at_s

    def on_reconciled(self, hindrance: str) -> None:
        """Note the problem of the last reconciliation.

        It is empty after a success. While there is a problem, the Lease is not requested.
        """
        self._problem = hindrance
        if not hindrance:
            self._worked_at_s = time.monotonic()

    def stop(self) -> None:
        """Let others lead: immediately, or after the duration of the Lease if an eviction of this program may still be carried out."""
        if not self.leading:
            return
        self.leading = False
        if self._controller.has_pending_evictions:
            self._log.warning("an eviction is not answered yet: the Lease ends by itself, and the next leader releases the nodes")
            self._lease.abandon()
        else:
            self._lease.release()

    def release_nodes(self) -> None:
        """Release the holds that this program has not finished. The holds of other programs are left to the next leader."""
        if not self._lease.held or self._controller.has_pending_evictions:
            return
        try:
            self._controller.release_own_holds()
            left = sorted(self._controller.still_held)
        except (LeaseLostError, *TEMPORARY) as error:
            self._observer.on_error(f"the next leader releases the held nodes: {error}")
            return
        if left:
            self._log.error("nodes were not released; the next leader releases them", nodes=left)

    def _step_down(self) -> None:
        why = self._problem or "no reconciliation was successful"
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
