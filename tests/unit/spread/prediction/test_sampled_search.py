# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A search for feasible nodes of a large cluster ends after a part of them, and the next one begins there."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import FilterRunner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_search import SearchOrder
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.sampled_search import SampledSearch

from tests.unit.support.cluster import ClusterBuilder, Json, struct

ZONE = "topology.kubernetes.io/zone"
POD: Json = {"metadata": {"name": "web", "namespace": "app"}, "spec": {"containers": [{"name": "m"}]}}
"""A pod whose filters depend on the single node."""
ZONED = {"maxSkew": 9, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}


def runner_on(names: list[str], closed: set[str], *, spread: bool, gone: str = "") -> tuple[FilterRunner, ClusterState]:
    """The filters of a pod in a cluster with these nodes, some of which have no free capacity for it.

    With ``spread``, they depend on other nodes.
    """
    cluster = ClusterBuilder()
    for name in names:
        cluster.node(name, labels={ZONE: "z"}, allocatable={"cpu": "1", "pods": "1"})
        if name in closed:
            cluster.pod(f"full-{name}", name, labels={"app": "web"})
    state = ClusterState.of(cluster.snapshot())
    pod = struct(Pod, {**POD, "spec": {**POD["spec"], "topologySpreadConstraints": [ZONED] if spread else []}})
    return FilterRunner(pod, state), state


@pytest.mark.parametrize("spread", [False, True])
def test_a_search_begins_where_the_one_before_has_ended(spread: bool) -> None:
    names = [f"n{number}" for number in range(7)]
    runner, _state = runner_on(names, {"n2"}, spread=spread)
    search = SampledSearch(SearchOrder(tuple(reversed(names))), 3)
    found = [search.find(runner, tuple(names), accept_unknown=False) for _ in range(3)]
    assert found[:2] == [("n6", "n5", "n4"), ("n3", "n1", "n0")]
    assert found[2] == ("n6", "n5", "n4")


@pytest.mark.parametrize("spread", [False, True])
def test_a_search_without_enough_feasible_nodes_returns_all_of_them(spread: bool) -> None:
    runner, _state = runner_on(["a", "b", "c"], {"b"}, spread=spread)
    search = SampledSearch(SearchOrder(("a", "b", "c")), 3)
    for _ in range(3):
        assert sorted(search.find(runner, ("a", "b", "c"), accept_unknown=False)) == ["a", "c"]
    assert search.find(runner, ("b",), accept_unknown=False) == ()


def test_a_search_knows_the_nodes_that_have_changed() -> None:
    names = [f"n{number}" for number in range(8)]
    runner, state = runner_on(names, {"n1", "n6"}, spread=False)
    search = SampledSearch(SearchOrder(tuple(names)), 3)
    for name in ("n1", "n6"):
        state.remove(state.snapshot.pods_by_node[name][0])
    state.assign(struct(Pod, {**POD, "metadata": {**POD["metadata"], "uid": "new"}}), "n2")
    # It checks n0, n1, n2 and n3 first, then n4, n5 and n6.
    found = [search.find(runner, tuple(names), accept_unknown=False) for _ in range(2)]
    assert [sorted(some) for some in found] == [["n0", "n1", "n3"], ["n4", "n5", "n6"]]


def test_a_search_continues_until_it_has_found_enough_nodes() -> None:
    names = [f"n{number}" for number in range(8)]
    runner, state = runner_on(names, set(), spread=False)
    search = SampledSearch(SearchOrder(tuple(names)), 3)
    for number in (0, 1, 2, 4):
        state.assign(struct(Pod, {**POD, "metadata": {**POD["metadata"], "uid": f"new-{number}"}}), f"n{number}")
    assert search.find(runner, tuple(names), accept_unknown=False) == ("n3", "n5", "n6")


@pytest.mark.parametrize("spread", [False, True])
def test_searches_with_other_pods_in_between_find_the_same_nodes(spread: bool) -> None:
    names = [f"n{number}" for number in range(7)]
    runner, _state = runner_on(names, set(), spread=spread)
    search = SampledSearch(SearchOrder(tuple(names)), 3, advances=False)
    assert {search.find(runner, tuple(names), accept_unknown=False) for _ in range(3)} == {("n0", "n1", "n2")}
