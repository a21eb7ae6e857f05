# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A burst of pods between two refreshes is spread, because each bound pod counts before it is measured."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.dithering import TABLES, rounded
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Annotation, Gauge, NodeView, PodView

from tests.unit.services.extender.agents.views import NOW_S, agent, node, pod, series

NODES, PODS = 8, 40
REQUESTS = {"cpu": 100, "memory": 2**28}
ALLOCATABLE = {"cpu": 8000, "memory": 2**35}


def equal_nodes(of: Agent) -> list[NodeView]:
    """Nodes that differ by a little, so that one of them is the best."""
    values = {
        Annotation("mean-free-cpu"): 6000.0,
        Annotation("std-free-cpu"): 400.0,
        Annotation("mean-free-memory"): 0.8 * 2**35,
        Annotation("std-free-memory"): 0.0,
    }
    found = []
    for number in range(NODES):
        measured = {
            query: [series(125e6 if isinstance(query, Gauge) else values.get(query, 1e6) * (1 - number / 1e4), device="eth0")]
            for query in of.queries
            if not isinstance(query, Annotation) or query in values
        }
        found.append(node(f"n{number}", measured, allocatable=ALLOCATABLE))
    return found


def place(of: Agent, nodes: list[NodeView], waiting: PodView) -> Counter[str]:
    """Bind each pod of a burst to a node with the best integer score, without a refresh.

    As the scheduler does, it chooses at random among equal nodes.
    """
    choices = random.Random(5)
    prepared = of.prepare(nodes, NOW_S)
    counts: Counter[str] = Counter()
    for number in range(PODS):
        if of.per_demand:
            found = list(of.score_all(prepared, nodes, waiting, NOW_S))
        else:
            found = [of.judge(prepared, one, None, NOW_S) for one in nodes]
        table = choices.randrange(TABLES)
        integers = [rounded(one.score or 0.0, table) for one in found]
        best = choices.choice([number for number, score in enumerate(integers) if score == max(integers)])
        bound = replace(waiting, name=f"{waiting.name}-{number}", bound_at_s=NOW_S)
        nodes[best] = replace(nodes[best], pods=(*nodes[best].pods, bound))
        counts[nodes[best].name] += 1
    return counts


@pytest.mark.parametrize(
    "of",
    [
        agent("network_traffic"),
        agent("network_traffic", normalise="relative"),
        agent("safe_overload", source="annotations"),
        agent("safe_balance", source="annotations"),
        agent("pigeon", policy_objective="LOAD_BALANCE"),
    ],
    ids=lambda of: of.name,
)
def test_a_burst_is_spread_over_equal_nodes(of: Agent) -> None:
    counts = place(of, equal_nodes(of), pod(requests=REQUESTS))
    assert max(counts.values()) <= 2 * PODS / NODES and len(counts) == NODES


@pytest.mark.parametrize("count_new_pods", [False, True])
def test_only_without_the_correction_a_burst_goes_to_the_best_node(count_new_pods: bool) -> None:
    of = agent("safe_balance", source="annotations", count_new_pods=count_new_pods)
    nodes = equal_nodes(of)
    nodes[3] = replace(nodes[3], series={**nodes[3].series, Annotation("std-free-cpu"): [series(0.0)]})
    counts = place(of, nodes, pod(requests=REQUESTS))
    assert (counts["n3"] == PODS) is not count_new_pods
