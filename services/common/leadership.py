# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules by which a service acquires and releases its Lease. Only a program that can do the work keeps it."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Callable

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
from .log import Log
from .signals import ShutdownSignal

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


class LeaderWork(t.Protocol):
    """The work of a leader, as far as another program continues it."""

    @property
    def pending_write(self) -> str:
        """The write that the API server may still carry out, as a sentence without a full stop. Empty if there is none."""

    def hand_over(self) -> str:
        """Release what this program holds in the cluster. Return an error text about what is left, or an empty text.

        Raises LeaseLostError, and one of ``TEMPORARY``.
        """

    def abandon(self) -> None:
        """Stop the work without a request, because another program may be active."""


class Leadership:
    """The state of the leadership of the program ``name``, such as rescuer.

    ``leading``: this program has the Lease. ``error``: the reason why the request for the Lease failed, or empty. ``api_unreachable``: the
    request failed without an answer.
    """

    def __init__(
        self,
        lease: LeaderLease,
        records: ConfigMapStore,
        work: LeaderWork,
        *,
        name: str,
        log: Log,
        on_error: Callable[[str], None],
        shutdown: ShutdownSignal,
    ) -> None:
        self.leading = False
        self.error = ""
        self.api_unreachable = False
        self._lease, self._records, self._work, self._name = lease, records, work, name
        self._log, self._on_error, self._shutdown = log, on_error, shutdown
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
                self._try_acquire()
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
            self._work.abandon()
            self._on_error("the Lease is lost: the next leader continues the work")
        if self.leading and now_at_s > self._worked_at_s + UNABLE_FOR_S:
            self._step_down()
        if self.leading or self._problem or now_at_s < self._ask_at_s:
            return
        try:
            self._try_acquire()
        except TEMPORARY as error:
            self.error, self.api_unreachable = str(error), isinstance(error, UnreachableError)
            self._on_error(self.error)

    def ensure_writable(self) -> None:
        """Check every ``CHECKED_EVERY_S`` seconds that a leader can write the ConfigMap. Raises KubeError."""
        now_at_s = time.monotonic()
        if self.leading and now_at_s >= self._checked_at_s + CHECKED_EVERY_S:
            self._records.ensure_writable()
            self._checked_at_s = now_at_s

    def on_reconciled(self, problem: str) -> None:
        """Note the problem of the last reconciliation.

        It is empty after a success. While there is a problem, the Lease is not requested.
        """
        self._problem = problem
        if not problem:
            self._worked_at_s = time.monotonic()

    def stop(self) -> None:
        """Let others lead: immediately, or after the duration of the Lease if an eviction of this program may still be carried out."""
        if not self.leading:
            return
        self.leading = False
        if pending := self._work.pending_write:
            self._log.warning(f"{pending}: the Lease ends by itself, and the next leader continues")
            self._lease.abandon()
        else:
            self._lease.release()

    def hand_over(self) -> None:
        """Release what this program holds in the cluster, so that the next leader need not wait.

        The next leader releases what other programs hold.
        """
        if not self._lease.held or self._work.pending_write:
            return
        try:
            left = self._work.hand_over()
        except (LeaseLostError, *TEMPORARY) as error:
            left = f"the next leader continues the work: {error}"
        if left:
            self._on_error(left)

    def _step_down(self) -> None:
        why = self._problem or "no reconciliation was successful"
        self._on_error(f"the Lease is released, because this {self._name} could not work for {UNABLE_FOR_S:.0f} s: {why}")
        self.hand_over()
        self.stop()
        self._work.abandon()

    def _try_acquire(self) -> None:
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
