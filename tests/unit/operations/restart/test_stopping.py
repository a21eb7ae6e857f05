# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that its caller stops begins nothing more and leaves the outcome of what has begun pending."""

from __future__ import annotations

import threading
import time

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.run import run_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.stopping import (
    RunStoppedError,
    never_stop,
    wait_unless_stopped,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

from tests.unit.support.cluster import workers
from tests.unit.support.fakes import FakeApi

NOW = 1_767_225_600.0
STOPPED = Reason("stopping", "the program was told to stop")


@pytest.mark.parametrize(("wait", "outcome"), [(True, "unchanged"), (False, "pending")])
def test_a_stop_between_two_targets_skips_the_others(wait: bool, outcome: str) -> None:
    """The rollout of the first one has ended before the stop, so its outcome is recorded if the run waits."""
    cluster = workers(3)
    for name in ("a", "b"):
        cluster.deployment(name, ["worker-1", "worker-1"])
    api = FakeApi(cluster, now=NOW)
    targets = [Target("Deployment", "app", name) for name in ("a", "b")]
    first, second = run_restart(api, targets, RestartOptions(wait=wait), stop=lambda: STOPPED if api.patches else None)
    assert (first.action, first.outcome, first.changed) == ("restarted", outcome, True)
    assert (second.action, second.reason, second.outcome, second.changed) == ("skipped", STOPPED, "", False)
    assert len(api.patches) == (2 if wait else 1), "the restart, and its outcome"


def test_a_run_that_is_stopped_at_its_begin_writes_nothing() -> None:
    cluster = workers(2)
    cluster.deployment("a", ["worker-1", "worker-1"])
    api = FakeApi(cluster, now=NOW)
    (result,) = run_restart(api, [Target("Deployment", "app", "a")], RestartOptions(), stop=lambda: STOPPED)
    assert (result.action, result.reason) == ("skipped", STOPPED) and api.patches == []


def test_a_wait_has_the_time_of_each_call() -> None:
    short, long = wait_unless_stopped([lambda: None, lambda: time.sleep(0.3)], never_stop)
    assert 0 <= short < 0.3 <= long


def test_a_wait_ends_without_the_call_that_it_waits_for() -> None:
    begun, over = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        over.wait()

    with pytest.raises(RunStoppedError):
        wait_unless_stopped([call], lambda: STOPPED if begun.is_set() else None)
    over.set()


def test_a_wait_raises_the_error_of_a_call() -> None:
    def call() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        wait_unless_stopped([call], never_stop)
