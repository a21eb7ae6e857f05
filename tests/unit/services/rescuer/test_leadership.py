# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""When the rescuer takes the Lease, and when it gives the Lease up."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, KubeError
from ansible_collections.onprem.kube_scheduling.services.rescuer import leadership
from ansible_collections.onprem.kube_scheduling.services.rescuer.leadership import CHECKED_EVERY_S, UNABLE_FOR_S, Leadership
from ansible_collections.onprem.kube_scheduling.services.rescuer.orders import Orders


class Time:
    """The module ``time``, with a clock that is set."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Lease:
    holder = "me"

    def __init__(self) -> None:
        self.held = False
        self.answers: list[KubeError | bool] = []
        self.ended = ""

    def acquire(self, _timeout_s: float) -> bool:
        answer = self.answers.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        self.held = answer
        return answer

    def release(self) -> None:
        self.held, self.ended = False, "released"

    def leave(self) -> None:
        self.held, self.ended = False, "left"


class Rescuer:
    """One that has a node held."""

    def __init__(self) -> None:
        self.evicting = False
        self.still_held: dict[str, str] = {"n": "hold"}
        self.let_go_of: list[str] = []

    def let_go(self) -> None:
        self.let_go_of.append("cases")

    def let_go_of_nodes(self) -> None:
        self.let_go_of.append("nodes")
        self.still_held = {}


class Records:
    def __init__(self) -> None:
        self.checks = 0

    def check(self) -> None:
        self.checks += 1


class Notes:
    def __init__(self) -> None:
        self.troubles: list[str] = []

    def troubled(self, what: str) -> None:
        self.troubles.append(what)

    def info(self, *_of: t.Any, **_fields: t.Any) -> None:
        pass

    warning = error = info


class On(t.NamedTuple):
    leadership: Leadership
    lease: Lease
    rescuer: Rescuer
    records: Records
    notes: Notes
    orders: Orders
    time: Time


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    time, lease, rescuer, records, notes, orders = Time(), Lease(), Rescuer(), Records(), Notes(), Orders()
    monkeypatch.setattr(leadership, "time", time)
    parts: t.Any = (lease, records, rescuer)
    said: t.Any = notes
    return On(Leadership(*parts, log=said, observer=said, orders=orders), lease, rescuer, records, notes, orders, time)


def denial(*, early: bool) -> ForbiddenError:
    error = ForbiddenError('User "x" cannot get leases', status=403)
    error.early = early
    return error


def test_the_first_request_for_the_lease_outlives_the_denials_of_a_server_that_has_just_started(on: On) -> None:
    on.lease.answers = [denial(early=True), denial(early=True), True]
    on.leadership.begin()
    assert on.leadership.leading


def test_a_missing_role_for_the_lease_ends_the_start(on: On) -> None:
    on.lease.answers = [denial(early=True), denial(early=False)]
    with pytest.raises(ForbiddenError):
        on.leadership.begin()


def test_a_signal_ends_the_wait_for_the_first_request(on: On) -> None:
    on.lease.answers = [denial(early=True)] * 3
    on.orders.stop()
    on.leadership.begin()
    assert not on.leadership.leading


def test_a_leader_without_a_successful_look_releases_its_nodes_and_the_lease_and_does_not_ask_for_it(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.begin()
    for _look in range(int(UNABLE_FOR_S)):
        on.leadership.note("configmaps: denied")
        on.time.now_s += 1
        on.leadership.lead()
        assert on.leadership.leading
    on.time.now_s += 1
    on.leadership.lead()
    assert not on.leadership.leading and on.lease.ended == "released" and on.rescuer.let_go_of == ["nodes", "cases"]
    assert "configmaps: denied" in on.notes.troubles[-1]
    on.time.now_s += 3600
    on.leadership.lead()
    assert not on.leadership.leading
    on.lease.answers = [True]
    on.leadership.note("")
    on.leadership.lead()
    assert on.leadership.leading


def test_a_leader_whose_looks_are_successful_keeps_the_lease(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.begin()
    for _look in range(10):
        on.time.now_s += UNABLE_FOR_S - 1
        on.leadership.note("")
        on.leadership.lead()
    assert on.leadership.leading and on.notes.troubles == []


def test_a_leader_checks_now_and_then_that_it_can_write(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.check()
    on.leadership.begin()
    on.leadership.check()
    assert on.records.checks == 0
    on.time.now_s += CHECKED_EVERY_S
    on.leadership.check()
    on.leadership.check()
    assert on.records.checks == 1


def test_a_leader_whose_eviction_may_still_be_carried_out_leaves_its_nodes_and_the_lease(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.begin()
    on.rescuer.evicting = True
    on.leadership.release_nodes()
    on.leadership.end()
    assert on.lease.ended == "left" and on.rescuer.let_go_of == []
