# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Lease of rebalancing runs: one run at a time, without a long wait for a run that is active."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import LEASES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LOST, LeaderLease
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rebalance.rebalance_lease import RebalanceLease

from tests.unit.operations.common.test_deleted_lease import Server


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Lease is not renewed by itself."""
    monkeypatch.setattr(LeaderLease, "_start_renewal", lambda _self: None)


def lease_on(server: Server, *, interrupted: bool = False) -> RebalanceLease:
    api: t.Any = server
    return RebalanceLease(api, lambda: interrupted)


def leader_of(lease: RebalanceLease) -> LeaderLease:
    return lease._lease


def spec(server: Server) -> dict[str, t.Any]:
    found: dict[str, t.Any] = server.kept[LEASES.plural]["spec"]
    return found


def held_by_another(server: Server) -> None:
    """Let another run take the Lease."""
    spec(server).update(holderIdentity="another", renewTime="2026-01-01T00:00:01.000000Z")


def test_a_run_does_not_wait_for_one_that_renews_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    assert lease_on(server).acquire()
    held_by_another(server)
    second = lease_on(server)
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            spec(server)["renewTime"] = "2026-01-01T00:00:06.000000Z"

    monkeypatch.setattr(leader_of(second)._stopping, "wait", wait)
    assert not second.acquire()
    assert len(pauses) == 3, "the first read after the renewal ends the wait"
    assert second.another_run.code == "another_run" and "another holds the Lease" in second.another_run.text


def test_a_run_that_is_interrupted_does_not_wait() -> None:
    server = Server()
    assert lease_on(server).acquire()
    assert not lease_on(server, interrupted=True).acquire()


def test_a_lease_that_ended_by_time_is_acquired_again() -> None:
    server = Server()
    lease = lease_on(server)
    assert lease.acquire() and lease.violation() is None
    leader_of(lease)._valid_until_s = LOST
    assert lease.violation() is None and leader_of(lease).held and lease.error is None


def test_a_lease_that_another_run_has_is_lost_immediately() -> None:
    server = Server()
    lease = lease_on(server)
    assert lease.acquire()
    held_by_another(server)
    leader_of(lease)._valid_until_s = LOST
    lost = lease.violation()
    assert lost is not None and lost.code == "lease_lost" and "another holds it" in lost.text and lease.error is None
    lease.release()
    assert spec(server)["holderIdentity"] == "another", "the Lease of another run is not released"


def test_an_error_by_which_the_lease_is_lost_is_kept() -> None:
    server = Server()
    lease = lease_on(server)
    assert lease.acquire()
    leader_of(lease)._valid_until_s = LOST
    denied = ForbiddenError("no role any more", status=403)
    server.refuse = lambda _plural: denied
    lost = lease.violation()
    assert lost is not None and "no role any more" in lost.text and lease.error is denied


def test_a_released_lease_is_free_for_the_next_run() -> None:
    server = Server()
    first = lease_on(server)
    assert first.acquire()
    first.release()
    assert not spec(server)["holderIdentity"] and lease_on(server).acquire()
