# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node_exporter with thousands of devices makes its own node unknown, and no other one: real Prometheus, answers of any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.node_exporter import DeviceSettings, NodeSettings
from tests.integration.extender.conftest import StartExtender
from tests.integration.extender.extender_process import pod_of
from tests.integration.extender.traffic import BUSY, DEVICE, PROFILE, SPEED, Traffic, settings
from tests.integration.workloads import wait_until

DEVICES = 2500
LESS_THAN_ALL = 200_000
"""Bytes of an answer: more than those of the usual nodes, and less than those of DEVICES devices."""


@pytest.mark.parametrize("changes", [{}, {"max_answer_bytes": LESS_THAN_ALL}])
def test_the_other_nodes_keep_their_scores(
    traffic: Traffic, start_extender: StartExtender, extender_kubeconfig: Path, changes: dict[str, int]
) -> None:
    quiet, hostile = traffic.workers[:2]
    extender = start_extender(settings(traffic, str(extender_kubeconfig), **changes))
    traffic.settle(extender, quiet)
    many = {f"eth{number}": DeviceSettings(receive=1.0) for number in range(1, DEVICES)}
    traffic.set_load(hostile, NodeSettings({DEVICE: DeviceSettings(BUSY, speed=SPEED), **many}))

    def agents() -> dict[str, dict[str, object]]:
        extender.post("prioritize", {"Pod": pod_of(PROFILE), "NodeNames": traffic.workers})
        return {row["node"]: row["agents"][0] for row in extender.explain("default", "asked")["nodes"]}

    try:
        wait_until(lambda: agents()[hostile]["score"] is None, what="an unknown score of the node with many devices")
        (error,) = extender.explain("default", "asked")["errors"].values()
        assert f"node {hostile} has no values of " in error and "it has more than 1024 series" in error
        known = agents()
        assert all((known[name]["score"] is None) == (name == hostile) for name in traffic.workers)
        assert max(traffic.workers, key=extender.scores(traffic.workers, PROFILE).__getitem__) == quiet
    finally:
        traffic.remove(hostile)
        traffic.set_quiet(quiet)
