# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The speed that is assumed for links without one, also if one node reports a wrong speed or rate."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.node_traffic import assumed_speed

from tests.unit.services.extender.agents.traffic_nodes import GBIT, measured, traffic_agent
from tests.unit.services.extender.agents.views import scores


@pytest.mark.parametrize(
    ("speeds", "rates", "gbit"),
    [
        ([], [], 1),
        ([], [0.1, 0.5], 1),
        ([], [4], 4),
        ([], [2, 4], 4),
        ([], [6, 0.1, 5], 6),
        ([], [0.3, 1e9, 0.5], 1),
        ([], [3, 1e9], 6),
        ([1, 10, 25], [0, 0, 0, 0], 10),
        ([25], [0], 25),
        ([25], [0, 0], 10),
        ([1e9, 10], [0, 0, 0], 10),
    ],
)
def test_assumed_speed(speeds: list[float], rates: list[float], gbit: float) -> None:
    assert assumed_speed([one * GBIT for one in speeds], [one * GBIT for one in rates]).speed == pytest.approx(gbit * GBIT)


@pytest.mark.parametrize(("rate", "speed"), [(1e9 * GBIT, {}), (0.0, {"eth0": 1e9 * GBIT})])
def test_one_wrong_rate_or_speed_does_not_make_the_other_nodes_equal(rate: float, speed: dict[str, float]) -> None:
    of = traffic_agent()
    nodes = [
        measured(of, "idle", {"eth0": 0.0}),
        measured(of, "busy", {"eth0": 0.9 * GBIT}),
        measured(of, "wrong", {"eth0": rate}, speed=speed),
    ]
    found = scores(of, nodes)
    assert (found["idle"] or 0) - (found["busy"] or 0) >= 1.5, found
