# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the server and of Python that the latency of answers needs, as a running server has them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.http.connection import IDLE_S

from tests.unit.services.extender.http.running_server import Running, running

IDLE_POOL_S = 90
"""The seconds for which kube-scheduler keeps an idle connection."""

PYTHON_SWITCH_INTERVAL_S = 0.005


@pytest.fixture
def server() -> Iterator[Running]:
    """A server in an interpreter with the defaults of Python, which it has again afterwards."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(PYTHON_SWITCH_INTERVAL_S)
    gc.unfreeze()
    try:
        with running() as started:
            yield started
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before_s)


def test_a_connection_outlives_the_idle_pool_of_the_scheduler() -> None:
    assert IDLE_S == 120 > IDLE_POOL_S


def test_a_thread_that_calculates_yields_ten_times_earlier_than_by_default(server: Running) -> None:
    assert sys.getswitchinterval() == pytest.approx(PYTHON_SWITCH_INTERVAL_S / 10)


def test_the_objects_of_the_start_are_not_visited_by_the_garbage_collector(server: Running) -> None:
    assert gc.get_freeze_count() > 0
