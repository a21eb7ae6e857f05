# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An extender that answers late, with a real kube-scheduler: pods are placed, and each waits for the answer or for the timeout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import SUMMARY
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.slow_server import SlowServer, slow_server
from tests.integration.extender.traffic import PROFILE, Traffic, settings
from tests.integration.extender.waiting_pods import WaitingPods

PODS = 4
OTHER = "second-profile"
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> Extender:
    """It has one more profile, because the schedulers of both tests run until the end."""
    made = settings(traffic, str(extender_kubeconfig))
    made["profiles"][OTHER] = made["profiles"][PROFILE]
    return start_extender(made)


@pytest.fixture
def quiet(traffic: Traffic, extender: Extender) -> str:
    """The only worker without traffic."""
    name = traffic.workers[1]
    traffic.settle(extender, name)
    return name


@pytest.fixture
def server(extender: Extender) -> Iterator[SlowServer]:
    with slow_server(extender.url) as running:
        yield running


def bind_together(pods: WaitingPods, profile: str) -> tuple[list[str], float]:
    """Create pods, and return their nodes and the seconds until all were bound."""
    began_s = time.monotonic()
    names = [pods.create(profile) for _ in range(PODS)]
    nodes = [pods.wait_bound(name) for name in names]
    return nodes, time.monotonic() - began_s


def test_late_answers_within_the_timeout_are_used(
    start_scheduler: StartScheduler, server: SlowServer, pods: WaitingPods, quiet: str, record_property: Record
) -> None:
    start_scheduler(server, prioritizeVerb="prioritize", weight=10, httpTimeout="1s")
    assert pods.bind(1, PROFILE) == [quiet]
    found, seconds = bind_together(pods, PROFILE)
    assert found == [quiet] * PODS
    server.delay_s = 0.3
    found, late_seconds = bind_together(pods, PROFILE)
    assert found == [quiet] * PODS
    record_property(
        SUMMARY, f"extender: {PODS} pods are bound after {seconds:.1f} s, and after {late_seconds:.1f} s if each answer takes 0.3 s longer"
    )


def test_scheduling_continues_if_all_answers_come_after_the_timeout(
    start_scheduler: StartScheduler, server: SlowServer, pods: WaitingPods, quiet: str, record_property: Record
) -> None:
    start_scheduler(server, profiles=(OTHER,), prioritizeVerb="prioritize", weight=10, httpTimeout="500ms", ignorable=True)
    assert pods.bind(1, OTHER) == [quiet]
    server.delay_s = 2.0
    found, seconds = bind_together(pods, OTHER)
    assert all(found) and server.requests >= 1 + PODS
    record_property(SUMMARY, f"extender: {PODS} pods are bound after {seconds:.1f} s if no answer comes within httpTimeout: 500ms")
