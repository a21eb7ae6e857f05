# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The gauge of holds that are overdue, by the API server's clock."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics

from tests.unit.state.test_hold import NOW, hold
from tests.unit.support.clock import SetClock


def test_the_earliest_deadline_counts_and_the_time_after_it_grows_between_updates() -> None:
    clock, metrics = SetClock(), Metrics()
    clock.now_s = NOW

    def overdue_s() -> float:
        return next(sample.value for sample in metrics.hold_overdue.collect()[0].samples)

    assert overdue_s() == 0
    metrics.set_holds([hold(deadline_s=NOW + 90), hold("u-2", deadline_s=NOW + 30)], clock)
    assert overdue_s() == 0
    clock.sleep(35)
    assert overdue_s() == 5
    clock.sleep(5)
    assert overdue_s() == 10
    metrics.set_holds([hold(deadline_s=NOW + 90)], clock)
    assert overdue_s() == 0
    metrics.set_holds([], clock)
    assert overdue_s() == 0
