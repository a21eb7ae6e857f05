# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ends of a run, by the facts about its pods, its Lease and its time."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.end_of_run import End, RunState, end_of_run

WAITING = RunState(is_waiting=True)
OVER = RunState(is_over=True)


@pytest.mark.parametrize(
    ("state", "waits", "does_not_wait", "plans"),
    [
        pytest.param(RunState(), End.DONE, End.DONE, End.DONE, id="no pod waits"),
        pytest.param(WAITING, None, End.BEGUN, End.DONE, id="a pod waits, and no step is possible for it"),
        pytest.param(WAITING._replace(can_begin=True), None, None, End.DONE, id="the next step for a pod is possible"),
        pytest.param(WAITING._replace(is_settling=True, can_begin=True), None, None, None, id="the scheduler has its settle time"),
        pytest.param(WAITING._replace(is_over=True, can_begin=True), End.TIMED_OUT, End.TIMED_OUT, End.DONE, id="the time is over"),
        pytest.param(
            WAITING._replace(is_over=True, can_begin=True, is_clearing=True), None, None, End.DONE, id="a node is cleared after the time"
        ),
        pytest.param(RunState(has_unexplained=True), None, None, None, id="reasons are missing"),
        pytest.param(OVER._replace(has_unexplained=True), End.DONE, End.DONE, End.DONE, id="reasons are missing after the time"),
        pytest.param(RunState(is_blocked=True), None, None, None, id="the API server is away"),
        pytest.param(OVER._replace(is_blocked=True), End.TIMED_OUT, End.TIMED_OUT, End.TIMED_OUT, id="it is away after the time"),
        pytest.param(
            OVER._replace(is_blocked=True, is_unreadable=True), End.UNREADABLE, End.UNREADABLE, End.UNREADABLE, id="pods are unknown"
        ),
        pytest.param(RunState(must_write=True), None, None, End.DONE, id="a node must be released"),
        pytest.param(OVER._replace(must_write=True), End.STILL_HELD, End.STILL_HELD, End.DONE, id="a node is held after the time"),
        pytest.param(RunState(has_expired_holds=True), None, None, End.DONE, id="a hold of another program has ended"),
        pytest.param(
            RunState(has_expired_holds=True, lease_time_is_over=True), End.DONE, End.DONE, End.DONE, id="another program releases its hold"
        ),
    ],
)
def test_end_of_run(state: RunState, waits: End | None, does_not_wait: End | None, plans: End | None) -> None:
    assert end_of_run(state) is waits
    assert end_of_run(state, wait=False) is does_not_wait
    assert end_of_run(state, dry_run=True) is plans
