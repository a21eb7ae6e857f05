# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A terminating pod counts as free capacity if it ends as early as a victim."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.terminating_pods import longest_wait_s, terminating_pods
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.victims.pod_traits import own_grace_period_s

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import running

NOW = 1_767_225_600.0
GRACE_S = 10


def group_of(deletion_timestamp: str | None, *, evicted: dict[str, float] | None = None, **more: t.Any) -> str:
    pod = running("n", name="web", metadata={"deletionTimestamp": deletion_timestamp} if deletion_timestamp else None, **more)
    found = terminating_pods(snapshot_of(pods=[pod]), NOW, grace_period_s=GRACE_S, evicted=evicted)
    return "soon" if found.ending_soon else "staying" if found.not_ending_soon else ""


@pytest.mark.parametrize(
    ("ends_in_s", "expected"),
    [(0, "soon"), (GRACE_S, "soon"), (25, "soon"), (26, "staying"), (-15, "soon"), (-16, "staying"), (3e7, "staying")],
)
def test_pod_counts_as_free_if_it_ends_as_soon_as_a_victim_would(ends_in_s: float, expected: str) -> None:
    assert group_of(format_time(NOW + ends_in_s)) == expected


@pytest.mark.parametrize("text", ["11537-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "99999999-01-01T00:00:00Z", "-0044-03-15T00:00:00Z"])
def test_time_of_deletion_that_no_calendar_has_keeps_the_node_full(text: str) -> None:
    assert group_of(text) == "staying"


def test_pods_that_do_not_terminate_or_have_finished_are_not_listed() -> None:
    assert group_of(None) == ""
    assert group_of(format_time(NOW), phase="Succeeded") == ""


def test_own_victims_count_by_the_time_that_is_left_of_their_grace_period() -> None:
    assert group_of(format_time(NOW + 3600), evicted={"uid-web": 3.0}) == "soon"
    assert group_of(format_time(NOW), evicted={"uid-web": -16.0}) == "staying"


def test_longest_wait_covers_every_pod_that_counts_as_free() -> None:
    assert longest_wait_s(GRACE_S) == 40


@pytest.mark.parametrize(("asked", "expected"), [(None, 30), (0, 0), (7, 7), (-1, 1), (-(2**31), 1)])
def test_negative_grace_periods_are_read_as_the_server_reads_them(asked: int | None, expected: int) -> None:
    assert own_grace_period_s(running("n", terminationGracePeriodSeconds=asked)) == expected
