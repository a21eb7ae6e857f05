# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""``housekeeping_interval`` is the longest time between two checks, whether it is shorter or longer than the default of 10 s."""

from __future__ import annotations

import logging
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.environment import RescueEnvironment, RescueObserver
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.services.common import leadership
from ansible_collections.onprem.kube_scheduling.services.common.health import UNHEALTHY_AFTER_S, Health
from ansible_collections.onprem.kube_scheduling.services.common.leadership import UNABLE_FOR_S
from ansible_collections.onprem.kube_scheduling.services.common.log import Log
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal
from ansible_collections.onprem.kube_scheduling.services.rescuer import daemon as module
from ansible_collections.onprem.kube_scheduling.services.rescuer.daemon import Daemon
from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.rescuer.settings import Settings

from tests.unit.support.clock import SetClock
from tests.unit.support.fakes import Cluster, Lease, node

SECONDS = (1, 10, 30, 300)


class Quiet(Cluster):
    """A cluster in which nothing changes."""

    def __init__(self, clock: SetClock) -> None:
        super().__init__([node("n")], [])
        self._clock = clock

    def wait_for_change(self, since_version: int, timeout_s: float) -> int:
        self._clock.sleep(timeout_s)
        return since_version


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    for where in (module, leadership):
        monkeypatch.setattr(where, "time", made)
    return made


@pytest.fixture
def lease() -> Lease:
    return Lease()


@pytest.fixture
def start(clock: SetClock, lease: Lease, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[int], tuple[Daemon, Health]]:
    """A daemon that leads, with this interval."""
    cluster: t.Any = Quiet(clock)
    held: t.Any = lease
    environment = RescueEnvironment(cluster, cluster, RescueOptions(), held, RescueObserver(), writer="test")
    monkeypatch.setattr(module, "open_environment", lambda *_of, **_how: environment)

    def start(interval: int) -> tuple[Daemon, Health]:
        health = Health(clock.monotonic)
        daemon = Daemon(
            Settings(RescueOptions(), housekeeping_interval=interval),
            cluster,
            log=Log(logging.getLogger("test")),
            metrics=Metrics(),
            health=health,
            shutdown=ShutdownSignal(),
        )
        daemon._leadership.start()
        return daemon, health

    return start


@pytest.mark.parametrize("interval", SECONDS)
def test_housekeeping_interval_is_the_longest_time_between_two_checks(
    start: t.Callable[[int], tuple[Daemon, Health]], interval: int
) -> None:
    daemon, _watchdog = start(interval)
    assert daemon._reconcile_once().requeue_after_s == interval


@pytest.mark.parametrize("interval", SECONDS)
def test_daemon_that_rests_for_the_housekeeping_interval_stays_healthy_and_keeps_the_lease(
    start: t.Callable[[int], tuple[Daemon, Health]], clock: SetClock, lease: Lease, interval: int
) -> None:
    """A rest is longer than ``UNABLE_FOR_S`` and ``UNHEALTHY_AFTER_S`` in the last case."""
    daemon, health = start(interval)
    for _turn in range(3):
        began_s = clock.monotonic()
        daemon._wait(daemon._reconcile_once())
        assert clock.monotonic() - began_s == pytest.approx(interval, abs=1.0)
        assert lease.held and daemon._leadership.leading and health.unhealthy_reason == ""
    assert max(SECONDS) > max(UNABLE_FOR_S, UNHEALTHY_AFTER_S)
