# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of uvicorn and of Python that the latency of answers needs, as a running server has them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

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


def test_a_connection_outlives_the_idle_pool_of_the_scheduler(server: Running) -> None:
    for listener in (server.main, server.status):
        assert listener._config.timeout_keep_alive == 120 > IDLE_POOL_S


def test_a_thread_that_calculates_yields_ten_times_earlier_than_by_default(server: Running) -> None:
    assert sys.getswitchinterval() == pytest.approx(PYTHON_SWITCH_INTERVAL_S / 10)


def test_the_objects_of_the_start_are_not_visited_by_the_garbage_collector(server: Running) -> None:
    assert gc.get_freeze_count() > 0


def test_uvicorn_does_no_work_that_no_client_uses(server: Running) -> None:
    for config in (server.main._config, server.status._config):
        used = (config.access_log, config.proxy_headers, config.server_header, config.date_header, config.should_reload)
        assert not any(used) and config.ws == "none" and config.lifespan == "off"
