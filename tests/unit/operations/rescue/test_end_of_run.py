# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ends of a run, by the facts about its pods, its Lease and its time."""

from __future__ import annotations

import time
import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import RescueError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import End, end_of_run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED, WAITING
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan_reasons import UNEXPLAINED


def task(status: str = WAITING, **facts: t.Any) -> SimpleNamespace:
    unfinished: dict[str, t.Any] = {"is_finished": False, "is_clearing": False, "uncertain_evictions": {}, "evicted": [], "uid": "u"}
    return SimpleNamespace(**{**unfinished, "may_be_resumed": False, "status": status, "reason": None, "settles_at_s": 0.0, **facts})


POSSIBLE = task(PLANNED)
SETTLING = task(settles_at_s=time.monotonic() + 3600)
UNKNOWN = task(IMPOSSIBLE, reason=UNEXPLAINED)
FINISHED = task(is_finished=True)
OVER = {"is_over": True}
BLOCKED = {"is_blocked": True}
HOLD = [SimpleNamespace(uid="another")]


def facts(
    tasks: tuple[SimpleNamespace, ...] = (),
    *,
    problem: str = "",
    still_held: t.Sequence[t.Any] = (),
    clearing: bool = False,
    expired: bool = False,
    **of_clock: bool,
) -> tuple[t.Any, t.Any]:
    """A controller that leads, and a clock."""
    controller = SimpleNamespace(
        tasks={str(number): one for number, one in enumerate(tasks)},
        problem=problem,
        unrecorded=[],
        still_held=still_held,
        clearing=tasks if clearing else [],
        holds=SimpleNamespace(expired=["n"] if expired else [], orphaned=[]),
        environment=SimpleNamespace(lease=SimpleNamespace(held=True, holder="")),
    )
    is_late = of_clock.pop("is_late", False)
    return controller, SimpleNamespace(**{"is_over": False, "is_blocked": False, **of_clock}, has_run_for=lambda _seconds: is_late)


@pytest.mark.parametrize(
    ("now", "waits", "does_not_wait", "plans"),
    [
        pytest.param(facts(), End.DONE, End.DONE, End.DONE, id="no pod waits"),
        pytest.param(facts((task(),)), None, End.BEGUN, End.DONE, id="a pod waits, and no step is possible for it"),
        pytest.param(facts((POSSIBLE,)), None, None, None, id="the next step for a pod is possible"),
        pytest.param(facts((SETTLING,)), None, End.BEGUN, None, id="the scheduler has its settle time"),
        pytest.param(facts((POSSIBLE,), **OVER), End.TIMED_OUT, End.TIMED_OUT, None, id="the time is over"),
        pytest.param(facts((POSSIBLE,), clearing=True, **OVER), None, None, None, id="a node is cleared after the time"),
        pytest.param(facts((UNKNOWN,)), None, None, None, id="reasons are missing"),
        pytest.param(facts((UNKNOWN,), **OVER), End.DONE, End.DONE, End.DONE, id="reasons are missing after the time"),
        pytest.param(facts(**BLOCKED), None, None, None, id="the API server is away"),
        pytest.param(facts(**BLOCKED, **OVER), End.TIMED_OUT, End.TIMED_OUT, End.TIMED_OUT, id="it is away after the time"),
        pytest.param(facts(still_held=HOLD), None, None, End.DONE, id="a node must be released"),
        pytest.param(facts(still_held=HOLD, **OVER), End.TIMED_OUT, End.TIMED_OUT, End.DONE, id="a node is held after the time"),
        pytest.param(facts(expired=True), None, None, End.DONE, id="a hold of another program has ended"),
        pytest.param(facts(expired=True, is_late=True), End.DONE, End.DONE, End.DONE, id="another program releases its hold"),
    ],
)
def test_end_of_run(now: tuple[t.Any, t.Any], waits: End | None, does_not_wait: End | None, plans: End | None) -> None:
    assert end_of_run(*now, wait=True, dry_run=False) is waits
    assert end_of_run(*now, wait=False, dry_run=False) is does_not_wait
    assert end_of_run(*now, wait=True, dry_run=True) is plans


@pytest.mark.parametrize("tasks", [(), (task(),), (FINISHED, task())])
def test_run_fails_if_the_cluster_was_unreadable_until_the_end_of_its_time(tasks: tuple[SimpleNamespace, ...]) -> None:
    with pytest.raises(RescueError, match="within wait_timeout: pods: no answer"):
        end_of_run(*facts(tasks, problem="pods: no answer", **OVER, **BLOCKED), wait=True, dry_run=False)


@pytest.mark.parametrize("more", [{"still_held": HOLD}, {}])
def test_run_with_a_known_result_ends_although_the_cluster_is_unreadable(more: dict[str, t.Any]) -> None:
    now = facts((FINISHED,), problem="pods: no answer", **more, **OVER, **BLOCKED)
    assert run.end_of_run(*now, wait=True, dry_run=False) is End.TIMED_OUT
