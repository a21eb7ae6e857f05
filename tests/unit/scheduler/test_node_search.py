# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The search for feasible nodes of a large cluster ends after a part of them, and the next one begins there."""

from __future__ import annotations

import random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_search import (
    names_by_zone,
    nodes_to_find,
    search_order,
)

from tests.unit.support.cluster import struct


@pytest.mark.parametrize(
    ("percentage", "nodes", "found"),
    # The first eight are those of TestNumFeasibleNodesToFind of kubernetes.
    [
        (0, 10, 10),
        (40, 10, 10),
        (0, 1000, 420),
        (40, 1000, 400),
        (0, 6000, 300),
        (40, 6000, 2400),
        (0, 99, 99),
        (0, 120, 100),
        (100, 500, 500),
    ],
)
def test_the_number_of_nodes_to_find(percentage: int, nodes: int, found: int) -> None:
    assert nodes_to_find(percentage, nodes) == found


def node(name: str, zone: str) -> Node:
    found: Node = struct(Node, {"metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone} if zone else {}}})
    return found


def test_the_order_takes_one_node_of_each_zone_in_turn() -> None:
    nodes = [node(f"{zone}-{number}", zone) for zone, count in (("a", 3), ("b", 1), ("", 2)) for number in range(count)]
    for seed in range(20):
        order = search_order(names_by_zone(nodes), random.Random(seed))
        zones = [name.partition("-")[0] for name in order]
        assert sorted(order) == sorted(one.name for one in nodes)
        assert (sorted(zones[:3]), sorted(zones[3:5]), zones[5]) == (["", "a", "b"], ["", "a"], "a")
    assert len({search_order(names_by_zone(nodes), random.Random(seed)) for seed in range(20)}) > 1
