# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each wait of a rescue has a maximum that further reasons to wait do not prolong."""

from __future__ import annotations

import math

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.waits import Settling, Waits
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan_reasons import (
    ANOTHER_POD_FIRST,
    CAPACITY_BECOMING_FREE,
    NO_NODE,
    OTHERS_TERMINATING,
)


@pytest.mark.parametrize(
    ("code", "field"),
    [
        (CAPACITY_BECOMING_FREE, "capacity_since_s"),
        (OTHERS_TERMINATING, "others_since_s"),
        (ANOTHER_POD_FIRST, "expected_pods_since_s"),
    ],
)
def test_the_first_start_of_a_wait_counts(code: str, field: str) -> None:
    waits = Waits(max_s=10.0).begin(code, 100.0).begin(code, 105.0)
    starts = {name: getattr(waits, name) for name in ("capacity_since_s", "others_since_s", "expected_pods_since_s", "queued_since_s")}
    assert {name: since_s for name, since_s in starts.items() if since_s < math.inf} == {field: 100.0}
    assert not waits.has_ended(getattr(waits, field), 110.0)
    assert waits.has_ended(getattr(waits, field), 110.1)


def test_a_reason_that_is_no_wait_begins_none() -> None:
    assert Waits().begin(NO_NODE, 100.0) == Waits()


def test_a_wait_that_has_not_begun_has_not_ended() -> None:
    assert not Waits(max_s=0.0).has_ended(math.inf, 1e9)


def test_the_place_in_the_queue_is_kept_until_the_wait_for_other_rescues_ends() -> None:
    queued = Waits(max_s=10.0).begin_queue(100.0).begin_queue(108.0)
    assert queued.queued_since_s == 100.0 and queued.end_queue().queued_since_s == math.inf
    assert queued.end_queue().begin_queue(120.0).queued_since_s == 120.0


def test_a_pod_is_expected_since_the_first_plan_with_a_node() -> None:
    assert Waits().expect_node(100.0).expect_node(101.0).node_since_s == 100.0


def test_a_restart_never_ends_the_settle_time_earlier() -> None:
    assert Settling(50.0).restarted(10.0, 2.0).ends_at_s == 50.0
