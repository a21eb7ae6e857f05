# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The end of a program whose eviction the API server may still carry out."""

from __future__ import annotations

import threading
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    KubeError,
    NotSentError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.requests import EvictionRequests

from tests.unit.support.fakes import Scene, node, pod, scene


class Slow:
    """Real evictions take until ``go_on`` is set."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, _name: str, dry_run: bool) -> KubeError | None:
        if not dry_run:
            self.go_on.wait(30)
        return None


@pytest.fixture
def slow() -> t.Iterator[Slow]:
    found = Slow()
    yield found
    found.go_on.set()


def evicting(slow: Slow) -> Scene:
    on = scene([node("n")], [pod("v-n", "1", on="n"), pod("dns", "1")])
    on.cluster.refuse_eviction = slow
    on.controller.reconcile()
    assert on.cluster.held == ["n"] and on.controller.pending_write
    return on


def test_a_run_releases_node_and_lease_only_after_its_eviction_was_answered(slow: Slow) -> None:
    on = evicting(slow)
    lease: t.Any = on.lease
    lease.abandon = lambda: pytest.fail("it was waited for")
    end = threading.Thread(target=lambda: _end(on))
    end.start()
    end.join(0.5)
    assert end.is_alive() and on.cluster.held == ["n"] and on.lease.held
    on.cluster.pods["v-n"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    on.cluster.pods["v-n"]["status"]["conditions"] = [condition]
    slow.go_on.set()
    end.join(30)
    assert not end.is_alive() and on.cluster.held == [] and not on.lease.held
    (task,) = on.controller.tasks.values()
    assert [victim.pod.metadata.name for victim in task.evicted] == ["v-n"], "the result names the victim"


def test_a_run_that_cannot_wait_for_its_eviction_keeps_the_node_and_leaves_the_lease(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    on = evicting(slow)
    monkeypatch.setattr(run, "EVICTIONS_END_WITHIN_S", 0.1)
    left: list[str] = []
    lease: t.Any = on.lease
    lease.abandon = lambda: left.append("left")
    _end(on)
    assert left == ["left"] and on.lease.held and on.cluster.held == ["n"]


def test_eviction_in_progress_delays_no_other_rescue_after_the_deadline_of_its_hold(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    on = evicting(slow)
    (task,) = on.controller.tasks.values()
    task.clearing.ends_at_s = time.monotonic() - 1
    views, observe = [], on.controller.observe
    monkeypatch.setattr(on.controller, "observe", lambda: views.append(observe()) or views[-1])
    on.controller.reconcile()
    assert len(views) == 1


def test_run_releases_the_node_of_a_failed_rescue_whose_eviction_has_an_unknown_result() -> None:
    on = scene([node("n")], [pod("v-n", "1", on="n"), pod("dns", "1")])
    late = ApiError("the server has given up", status=504, reason="Timeout")
    on.cluster.refuse_eviction = lambda _name, dry_run: None if dry_run else late
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    assert list(task.uncertain_evictions) == ["u-v-n"]
    on.cluster.refuse_get = lambda _plural, _name: UnreachableError("the connection broke")
    task.retry_at_s, task.clearing.give_up_at_s = 0.0, time.monotonic() - 1
    on.cluster.refuse_patch = lambda _name, release: UnreachableError("the connection broke") if release else None
    on.controller.reconcile()
    assert task.is_finished and on.cluster.held == ["n"]
    on.cluster.refuse_get = on.cluster.refuse_patch = lambda _name, _more: None
    _end(on)
    assert on.cluster.held == [] and not task.uncertain_evictions


@pytest.mark.parametrize(
    ("error", "is_open"),
    [
        (UnreachableError("the connection broke"), True),
        (ApiError("a proxy has given up", status=504), True),
        (ApiError("the server has given up", status=504, reason="Timeout"), False),
        (NotSentError("too late"), False),
        (BudgetError("no", status=429), False),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_the_api_server_may_still_carry_out_an_eviction_whose_answer_is_lost(error: KubeError, is_open: bool, dry_run: bool) -> None:
    on = scene([node("n")], [pod("v-n", "1", on="n"), pod("dns", "1")])
    victims: list[t.Any] = []
    on.cluster.refuse_eviction = lambda _name, _dry_run: None
    on.controller.reconcile()
    (task,) = on.controller.tasks.values()
    victims += task.evicted
    on.cluster.refuse_eviction = lambda _name, _dry_run: error
    api: t.Any = on.cluster
    evictions = EvictionRequests(api)
    with pytest.raises(type(error)):
        evictions.request(victims[0], dry_run=dry_run)
    assert evictions.has_pending is (is_open and not dry_run)


def _end(on: Scene) -> None:
    lease: t.Any = on.lease
    with run._released_at_the_end(on.controller, lease):
        pass
