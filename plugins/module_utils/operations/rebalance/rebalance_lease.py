# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Lease that lets one run of a cluster at a time restart workloads, so that the limits of a run hold."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError
from ...model.reason import Reason
from ..common.config_map_store import NAMESPACE
from ..common.leader_lease import LeaderLease, identity

NAME = "kube-scheduling-rebalance"
PATH = f"{NAMESPACE}/{NAME}"
ACQUIRE_WITHIN_S = 20.0
"""Seconds that a run waits for the Lease of a killed run: its duration, and time for slow answers."""

ANOTHER_RUN = "another_run"
LEASE_LOST = "lease_lost"


class RebalanceLease:
    """The Lease of one run. ``interrupted``: returns true if the run must end, so that it does not wait for the Lease."""

    def __init__(self, api: KubeApi, interrupted: t.Callable[[], bool] = lambda: False) -> None:
        self._identity = identity()
        self._lease = LeaderLease(api, self._identity, name=NAME)
        self._interrupted = interrupted
        self.error: t.Optional[KubeError] = None
        """The error by which the Lease was lost. None if another run has it, or if it is held."""

    def acquire(self) -> bool:
        """Acquire the Lease. Return False if another run is active. The Lease of a killed run is free after its duration.

        Raise KubeError: a role is missing, or the API server does not respond.
        """
        return self._lease.acquire(ACQUIRE_WITHIN_S, give_up=lambda: self._lease.holder_is_active or self._interrupted())

    @property
    def another_run(self) -> Reason:
        """The reason why a run that did not acquire the Lease moves nothing."""
        holder = f"{self._lease.holder} holds" if self._lease.holder else "another run has just released"
        return Reason(ANOTHER_RUN, f"another run restarts workloads: {holder} the Lease {PATH}; run again later")

    def violation(self) -> t.Optional[Reason]:
        """Return the reason why the run must not begin another move. None while it holds the Lease.

        If the Lease has ended only because the API server did not respond, it is acquired again.
        """
        if self._lease.held:
            return None
        try:
            if self._acquire_again():
                self.error = None
                return None
        except KubeError as error:
            self.error = error
            return Reason(LEASE_LOST, f"the Lease {PATH} was lost: {error}")
        holder = f": {self._lease.holder} holds it" if self._lease.holder else ""
        return Reason(LEASE_LOST, f"the Lease {PATH} was lost{holder}. The next run continues")

    def release(self) -> None:
        """Release the Lease if this run has it, so that others can acquire it immediately."""
        self._lease.release()

    def _acquire_again(self) -> bool:
        """Try to acquire the Lease until another run has it."""
        return self._lease.acquire(ACQUIRE_WITHIN_S, give_up=lambda: self._lease.holder not in ("", self._identity) or self._interrupted())
