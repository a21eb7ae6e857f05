# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Other signs show that a scheduler runs if its Lease is not renewed."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, NotFoundError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.coordination import Event, Lease, LeaseSpec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.scheduler_health import SchedulerHealth

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import NOW, named_pod


def seen(name: str, *, on: str = "", scheduler: str = "default-scheduler") -> Pod:
    """A pod that is two hours old, or with a node three seconds."""
    return named_pod(name, "100m", on=on, schedulerName=scheduler, created=format_time(NOW - (3 if on else 7200)))


class Api:
    """An API server with a Lease that was renewed so long ago, and Events on pods."""

    def __init__(self, renewed_ago_s: float, event_ago_s: float | None, holder: str, *, lease: bool) -> None:
        self._has_lease = lease
        self._spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, renew_time=format_time(NOW - renewed_ago_s))
        self._event_ago_s = event_ago_s

    def now_s(self) -> float:
        return NOW

    def get(self, *_of: t.Any) -> Lease:
        if not self._has_lease:
            raise NotFoundError("no Lease", status=404)
        return Lease(spec=self._spec)

    def events_on(self, _namespace: str, _uid: str, *, reason: str) -> list[Event]:
        assert reason == "FailedScheduling"
        if self._event_ago_s is None:
            raise ForbiddenError("no role", status=403)
        return [Event(last_timestamp=format_time(NOW - self._event_ago_s))]


class Cache:
    """A cache with the times that the watch has shown."""

    def __init__(self, since: dict[str, float], bound_ago_s: float | None) -> None:
        self._since, self._bound_ago_s = since, bound_ago_s

    def unschedulable_since(self, uid: str) -> float | None:
        return self._since.get(uid)

    def last_bound_s_ago(self, scheduler_name: str) -> float | None:
        return self._bound_ago_s if scheduler_name == "default-scheduler" else None


def code(
    *others: Pod,
    renewed_ago_s: float = 3600,
    event_ago_s: float | None = 7200,
    ago_s: float = 7200,
    bound_ago_s: float | None = None,
    reported_ago_s: float = 7200,
    holder: str = "s",
    lease: bool = True,
) -> str | None:
    the_pod = seen("dns")
    api: t.Any = Api(renewed_ago_s, event_ago_s, holder, lease=lease)
    cache: t.Any = Cache({other.metadata.uid: NOW - reported_ago_s for other in others if not other.spec.node_name}, bound_ago_s)
    reason = SchedulerHealth(api, cache).violation(the_pod, NOW - ago_s, snapshot_of(nodes=[], pods=[the_pod, *others]))
    return reason.code if reason is not None else None


def test_a_lease_without_renewals_shows_that_no_scheduler_runs() -> None:
    assert code() == code(event_ago_s=None) == code(renewed_ago_s=60) == "scheduler_down"
    assert code(renewed_ago_s=20) is None


def test_a_scheduler_that_was_stopped_in_good_order_has_left_its_lease_without_a_holder() -> None:
    assert code(holder="", renewed_ago_s=300, event_ago_s=400, ago_s=400) == "scheduler_down"
    assert code(holder="", renewed_ago_s=300, event_ago_s=3) is None


@pytest.mark.parametrize("renewed_ago_s", [30, 60, 3600])
def test_fresh_proof_that_the_scheduler_runs_overrides_its_lease(renewed_ago_s: float) -> None:
    assert code(renewed_ago_s=renewed_ago_s, ago_s=3) is None, "it has reported the pod"
    assert code(renewed_ago_s=renewed_ago_s, event_ago_s=3) is None
    assert code(renewed_ago_s=renewed_ago_s, bound_ago_s=3) is None
    assert code(seen("pending"), renewed_ago_s=renewed_ago_s, reported_ago_s=3) is None


@pytest.mark.parametrize("renewed_ago_s", [30, 60])
def test_signs_of_life_from_before_the_lease_ran_out_prove_nothing(renewed_ago_s: float) -> None:
    old = {"event_ago_s": 40, "ago_s": 40, "bound_ago_s": 40, "reported_ago_s": 40}
    assert code(seen("pending"), renewed_ago_s=renewed_ago_s, **old) == "scheduler_down"
    assert code(event_ago_s=590, renewed_ago_s=600) == "scheduler_down"


def test_a_scheduler_that_is_seen_long_after_its_lease_ran_out_does_not_use_it() -> None:
    assert code(event_ago_s=590) is None and code(ago_s=590) is None and code(bound_ago_s=590) is None
    assert code(event_ago_s=610, ago_s=610, bound_ago_s=610) == "scheduler_down"


def test_a_pod_that_a_user_has_created_with_a_node_is_no_sign_of_life() -> None:
    assert code(seen("created", on="n")) == "scheduler_down"
    assert code(seen("created", on="n"), lease=False) == "scheduler_silent"


def test_a_scheduler_without_a_lease_is_alive_if_it_was_seen_in_the_last_minutes() -> None:
    assert code(lease=False) == "scheduler_silent"
    assert code(lease=False, ago_s=590) is None and code(lease=False, event_ago_s=590) is None
    assert code(lease=False, bound_ago_s=590) is None, "a pod that got its node while it was watched"
    assert code(seen("pending"), lease=False, reported_ago_s=590) is None


def test_pods_of_another_scheduler_are_no_sign_of_life() -> None:
    assert code(seen("another", scheduler="mine"), reported_ago_s=3) == "scheduler_down"
