# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Watches that end as soon as they have begun do not keep an API server busy."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ExpiredError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Raw, WatchEvent
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common import wait
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.rollout import FAILED, WAITING, rollout_progress

from tests.unit.support.cluster import workers
from tests.unit.support.fakes import FakeApi

EXPIRED = WatchEvent(type="ERROR", object=Raw(b'{"kind": "Status", "code": 410}'))
TIMEOUT_S, PAUSE_S = 0.5, 0.1


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(ExpiredError("too old", status=410), id="410"),
        pytest.param(UnreachableError("broken"), id="broken"),
        pytest.param(EXPIRED, id="an error event"),
        pytest.param(None, id="closed"),
    ],
)
def test_a_watch_that_ends_immediately_is_followed_by_a_pause(end: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    watches: list[str] = []

    def watch(*_args: t.Any, **options: t.Any) -> Iterator[WatchEvent]:
        watches.append(options["resource_version"])
        if isinstance(end, Exception):
            raise end
        if end is not None:
            yield end

    monkeypatch.setattr(wait, "WATCH_AT_MOST_EVERY_S", PAUSE_S)
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, status={"updatedReplicas": 1})
    api = FakeApi(cluster, now=0.0)
    monkeypatch.setattr(api, "watch", watch)
    (web,) = cluster.snapshot().workloads()
    _web, progress = wait.wait_for_workload(api, web, rollout_progress, timeout_s=TIMEOUT_S, poll_s=1)
    assert progress.state == WAITING
    assert 1 < len(watches) <= TIMEOUT_S / PAUSE_S + 1


def test_another_workload_of_the_same_name_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "WATCH_AT_MOST_EVERY_S", PAUSE_S)
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, status={"updatedReplicas": 1})
    (web,) = cluster.snapshot().workloads()
    again = workers(2)
    again.deployment("web", ["worker-1"] * 2, metadata={"uid": "another"})
    api = FakeApi(again, now=0.0)
    monkeypatch.setattr(api, "watch", lambda *_args, **_options: iter(()))
    _web, progress = wait.wait_for_workload(api, web, rollout_progress, timeout_s=60, poll_s=1)
    assert progress.state == FAILED and "Deployment app/web was deleted, and created again" in progress.text
