# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A Lease can be acquired if it is free or its holder has not renewed it for its duration. A write has the right fields."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.coordination import LeaseSpec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_micro_time, parse_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.lease import (
    acquired_spec,
    can_acquire,
    lease_patch,
    released_spec,
)

NOW = 1_767_225_600.0


def held_by(holder: str, *, renewed_s: float, duration_s: int = 15) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration_s,
        acquire_time=format_micro_time(NOW - 1000),
        renew_time=format_micro_time(renewed_s),
        lease_transitions=4,
    )


@pytest.mark.parametrize(
    ("spec", "unchanged_for_s", "allowed"),
    [
        (LeaseSpec(), 0, True),
        (LeaseSpec(holder_identity=""), 0, True),
        (held_by("me", renewed_s=NOW), 0, True),
        (held_by("other", renewed_s=NOW), 0, False),
        (held_by("other", renewed_s=NOW), 15, False),
        (held_by("other", renewed_s=NOW), 15.1, True),
        (held_by("other", renewed_s=NOW, duration_s=60), 59, False),
        (held_by("other", renewed_s=NOW, duration_s=60), 60.1, True),
        (LeaseSpec(holder_identity="other"), 14, False),
        (LeaseSpec(holder_identity="other"), 15.1, True),
    ],
)
def test_a_lease_is_acquired_only_if_no_other_holder_has_it(spec: LeaseSpec, unchanged_for_s: float, allowed: bool) -> None:
    assert can_acquire(spec, "me", unchanged_for_s=unchanged_for_s) is allowed


@pytest.mark.parametrize("renewed_s", [NOW - 86400, NOW - 20, NOW + 20, NOW + 86400])
@pytest.mark.parametrize("unchanged_for_s", [0, 14.9, 15.1])
def test_the_times_in_a_lease_decide_nothing(renewed_s: float, unchanged_for_s: float) -> None:
    spec = held_by("other", renewed_s=renewed_s)
    assert can_acquire(spec, "me", unchanged_for_s=unchanged_for_s) is (unchanged_for_s > 15)


def test_a_new_lease_has_no_transition() -> None:
    spec = acquired_spec(None, "me", now_s=NOW + 0.25, duration_s=15)
    time = "2026-01-01T00:00:00.250000Z"
    assert lease_patch(spec) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": time,
        "renewTime": time,
        "leaseTransitions": 0,
    }


def test_a_renewal_keeps_when_it_was_acquired() -> None:
    before = held_by("me", renewed_s=NOW - 5)
    after = acquired_spec(before, "me", now_s=NOW, duration_s=15)
    assert (after.acquire_time, after.lease_transitions) == (before.acquire_time, 4)
    assert parse_time(after.renew_time or "") == NOW


@pytest.mark.parametrize("before", [held_by("other", renewed_s=NOW - 99), released_spec(held_by("me", renewed_s=NOW - 99), now_s=NOW - 50)])
def test_another_holder_is_a_transition(before: LeaseSpec) -> None:
    after = acquired_spec(before, "me", now_s=NOW, duration_s=15)
    assert (parse_time(after.acquire_time or ""), after.lease_transitions, after.holder_identity) == (NOW, 5, "me")


def test_a_released_lease_is_free_immediately() -> None:
    free = released_spec(held_by("me", renewed_s=NOW), now_s=NOW)
    assert can_acquire(free, "other", unchanged_for_s=0)
    assert lease_patch(free)["holderIdentity"] is None, "so that a merge patch takes it away"
    assert free.lease_transitions == 4
