# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A Lease that a user deletes while it is held has one holder at a time."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import CONFIG_MAPS, LEASES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaderLease

from tests.unit.support.clock import SetClock

DURATION_S = 15
HELD_S = DURATION_S * 2 / 3


class Server:
    """Leases and ConfigMaps of one namespace, with resource versions. ``refuse`` may return an error for a write."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, t.Any]] = {}
        self.refuse: t.Callable[[str], Exception | None] = lambda _plural: None
        self._version = 0

    def with_timeouts(self, **_bounds: t.Any) -> Server:
        return self

    def now_s(self) -> float:
        return 1_767_225_600.0

    def get(self, resource: t.Any, _namespace: str, _name: str) -> t.Any:
        if resource.plural not in self.kept:
            raise NotFoundError("not found", status=404)
        return resource.decode(encode_json(self.kept[resource.plural]))

    def create(self, resource: t.Any, _namespace: str, body: dict[str, t.Any]) -> t.Any:
        if resource.plural in self.kept:
            raise ConflictError("it exists", status=409)
        return self._keep(resource, body)

    def merge_patch(self, resource: t.Any, _namespace: str, _name: str, patch: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        found = self.kept.get(resource.plural)
        if found is None:
            raise NotFoundError("not found", status=404)
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ConflictError("changed", status=409)
        if dry_run:
            self._check(resource)
            return resource.decode(encode_json(found))
        return self._keep(resource, {**found, **{key: value for key, value in patch.items() if key != "metadata"}})

    def _keep(self, resource: t.Any, body: dict[str, t.Any]) -> t.Any:
        self._check(resource)
        self._version += 1
        self.kept[resource.plural] = {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": str(self._version)}}
        return resource.decode(encode_json(self.kept[resource.plural]))

    def _check(self, resource: t.Any) -> None:
        error = self.refuse(resource.plural)
        if error is not None:
            raise error

    def delete(self, resource: t.Any) -> None:
        del self.kept[resource.plural]


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests renew when they want to."""
    monkeypatch.setattr(LeaderLease, "_start_renewal", lambda _self: None)


def contender(server: Server, name: str, time: SetClock) -> LeaderLease:
    api: t.Any = server
    return LeaderLease(api, name, clock=time, duration_s=DURATION_S)


def test_the_first_program_of_a_cluster_begins_immediately_and_leaves_a_trace() -> None:
    server, time = Server(), SetClock()
    assert contender(server, "a", time).acquire(0)
    assert CONFIG_MAPS.plural in server.kept, "later programs could not see that a program has held it"


@pytest.mark.parametrize("seen", [True, False])
def test_a_contender_waits_a_whole_duration_before_it_creates_a_lease_that_was_deleted(seen: bool) -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0)
    assert not (seen and other.acquire(0))
    server.delete(LEASES)
    for _second in range(DURATION_S + 1):
        assert not other.acquire(0) and LEASES.plural not in server.kept
        time.now_s += 1
    assert not holder.held, "it could not renew"
    assert other.acquire(0) and not holder.acquire(0)


def test_the_holder_creates_its_deleted_lease_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0)
    server.delete(LEASES)
    time.now_s += HELD_S / 2
    assert not other.acquire(0)
    renewed_until_s = time.now_s + HELD_S

    ends = iter([False, True])
    monkeypatch.setattr(holder._stopping, "wait", lambda _pause_s: next(ends))
    holder._renew()
    assert holder.ends_at_s() == renewed_until_s and server.kept[LEASES.plural]["spec"]["holderIdentity"] == "a"
    time.now_s += DURATION_S - 1
    assert not other.acquire(0) and other.holder == "a"


def test_a_holder_that_was_frozen_does_not_create_its_deleted_lease_again_before_others_have_stopped() -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0)
    assert not other.acquire(0)
    time.now_s += DURATION_S + 1
    assert other.acquire(0)
    server.delete(LEASES)
    assert not holder.held and not holder.acquire(0) and other.held


def test_a_lease_from_which_a_user_has_removed_the_holder_is_not_free_before_its_duration_is_over() -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0)
    server.kept[LEASES.plural]["spec"]["holderIdentity"] = None
    assert not other.acquire(0) and holder.held
    time.now_s += DURATION_S + 1
    assert other.acquire(0) and not holder.held


def test_a_lease_that_was_released_is_free() -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0) and not other.acquire(0)
    holder.release()
    assert other.acquire(0)


def test_a_lease_that_was_left_is_not_free_before_its_duration_is_over() -> None:
    server, time = Server(), SetClock()
    holder, other = contender(server, "a", time), contender(server, "b", time)
    assert holder.acquire(0)
    holder.abandon()
    assert not holder.held and not other.acquire(0)
    time.now_s += DURATION_S + 1
    assert other.acquire(0)


def test_a_program_that_may_not_write_the_config_map_does_not_take_the_lease() -> None:
    server, time = Server(), SetClock()
    first = contender(server, "a", time)
    assert first.acquire(0)
    first.release()
    server.refuse = lambda plural: ForbiddenError("no role", status=403) if plural == CONFIG_MAPS.plural else None
    with pytest.raises(ForbiddenError):
        contender(server, "b", time).acquire(0)
    assert server.kept[LEASES.plural]["spec"]["holderIdentity"] is None
    server.refuse = lambda plural: InvalidError("immutable", status=422) if plural == CONFIG_MAPS.plural else None
    assert contender(server, "b", time).acquire(0), "no other program could write it either, and it can release nodes"
