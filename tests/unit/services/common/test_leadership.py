# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A service acquires its Lease when it can work, and releases it when it cannot."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, KubeError
from ansible_collections.onprem.kube_scheduling.services.common import leadership
from ansible_collections.onprem.kube_scheduling.services.common.leadership import CHECKED_EVERY_S, UNABLE_FOR_S, Leadership
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal

from tests.unit.support.clock import SetClock


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

    def abandon(self) -> None:
        self.held, self.ended = False, "left"


class Work:
    """Work that holds a node."""

    def __init__(self) -> None:
        self.pending_write = ""
        self.left = ""
        self.calls: list[str] = []

    def abandon(self) -> None:
        self.calls.append("abandon")

    def hand_over(self) -> str:
        self.calls.append("hand over")
        return self.left


class Records:
    def __init__(self) -> None:
        self.checks = 0

    def ensure_writable(self) -> None:
        self.checks += 1


class Notes:
    def __init__(self) -> None:
        self.troubles: list[str] = []

    def on_error(self, what: str) -> None:
        self.troubles.append(what)

    def info(self, *_of: t.Any, **_fields: t.Any) -> None:
        pass

    warning = error = info


class On(t.NamedTuple):
    leadership: Leadership
    lease: Lease
    work: Work
    records: Records
    notes: Notes
    shutdown: ShutdownSignal
    time: SetClock


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    time, lease, work, records, notes, shutdown = SetClock(), Lease(), Work(), Records(), Notes(), ShutdownSignal()
    monkeypatch.setattr(leadership, "time", time)
    parts: t.Any = (lease, records, work)
    said: t.Any = notes
    return On(
        Leadership(*parts, name="rescuer", log=said, on_error=notes.on_error, shutdown=shutdown),
        lease,
        work,
        records,
        notes,
        shutdown,
        time,
    )


def denial(*, early: bool) -> ForbiddenError:
    error = ForbiddenError('User "x" cannot get leases', status=403)
    error.early = early
    return error


def test_the_first_request_for_the_lease_outlives_the_denials_of_a_server_that_has_just_started(on: On) -> None:
    on.lease.answers = [denial(early=True), denial(early=True), True]
    on.leadership.start()
    assert on.leadership.leading


def test_a_missing_role_for_the_lease_ends_the_start(on: On) -> None:
    on.lease.answers = [denial(early=True), denial(early=False)]
    with pytest.raises(ForbiddenError):
        on.leadership.start()


def test_a_signal_ends_the_wait_for_the_first_request(on: On) -> None:
    on.lease.answers = [denial(early=True)] * 3
    on.shutdown.request_stop()
    on.leadership.start()
    assert not on.leadership.leading


def test_a_leader_without_a_successful_check_releases_its_nodes_and_the_lease_and_does_not_ask_for_it(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.start()
    for _look in range(int(UNABLE_FOR_S)):
        on.leadership.on_reconciled("configmaps: denied")
        on.time.now_s += 1
        on.leadership.update()
        assert on.leadership.leading
    on.time.now_s += 1
    on.leadership.update()
    assert not on.leadership.leading and on.lease.ended == "released" and on.work.calls == ["hand over", "abandon"]
    assert on.notes.troubles[-1].startswith("the Lease is released, because this rescuer could not work for 30 s: configmaps: denied")
    on.time.now_s += 3600
    on.leadership.update()
    assert not on.leadership.leading
    on.lease.answers = [True]
    on.leadership.on_reconciled("")
    on.leadership.update()
    assert on.leadership.leading


def test_a_leader_whose_checks_are_successful_keeps_the_lease(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.start()
    for _look in range(10):
        on.time.now_s += UNABLE_FOR_S - 1
        on.leadership.on_reconciled("")
        on.leadership.update()
    assert on.leadership.leading and on.notes.troubles == []


def test_a_leader_checks_now_and_then_that_it_can_write(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.ensure_writable()
    on.leadership.start()
    on.leadership.ensure_writable()
    assert on.records.checks == 0
    on.time.now_s += CHECKED_EVERY_S
    on.leadership.ensure_writable()
    on.leadership.ensure_writable()
    assert on.records.checks == 1


def test_a_leader_whose_eviction_may_still_be_carried_out_leaves_its_nodes_and_the_lease(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.start()
    on.work.pending_write = "an eviction is not answered yet"
    on.leadership.hand_over()
    on.leadership.stop()
    assert on.lease.ended == "left" and on.work.calls == []


def test_what_a_leader_could_not_release_is_an_error(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.start()
    on.work.left = "these nodes were not released: n"
    on.leadership.hand_over()
    assert on.notes.troubles == ["these nodes were not released: n"]


def test_a_program_that_lost_the_lease_releases_nothing(on: On) -> None:
    on.lease.answers = [True]
    on.leadership.start()
    on.lease.held = False
    on.leadership.update()
    on.leadership.hand_over()
    assert not on.leadership.leading and on.work.calls == ["abandon"]
