# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of a restart or of evictions is a comparison of the same replicas over the same domains."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.comparison import compare_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import Distribution
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.skew_cost import measure_skew
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import RestartOutcome, make_outcome

from tests.unit.support.cluster import ClusterBuilder

HOSTNAME = "kubernetes.io/hostname"


def over(*homes: str) -> list[Distribution]:
    """The distribution of replicas on the nodes a, b and c. The node x has no hostname label."""
    cluster = ClusterBuilder()
    for name in "abc":
        cluster.node(name)
    cluster.node("x")
    nodes = {node.name: node for node in cluster.nodes}
    nodes["x"] = replace(nodes["x"], metadata=replace(nodes["x"].metadata, labels={}))
    return [Topology(nodes).distribute(HOSTNAME, homes, ("a", "b", "c"))]


def pending_since(homes: str) -> RestartOutcome:
    return make_outcome(now_s=1_767_225_600.0, attempts=1, outcome="pending", revision="r", eligible="e", lowest=measure_skew(over(*homes)))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("aaa", "abc", "improved"),
        ("aaa", "aaa", "unchanged"),
        ("aaa", "aab", "improved"),
        ("aab", "aaa", "worse"),
        ("aaab", "aabc", "improved"),
        ("aabc", "aaab", "worse"),
        ("aaaaabbbbbc", "aaaaabbbccc", "improved"),
        ("aab", "abx", "worse"),
        ("aaa", "", "unchanged"),
        ("aaa", "b", "unchanged"),
        ("aaaa", "ab", "unchanged"),
        ("aa", "aabc", "unchanged"),
    ],
)
def test_the_skew_cost_before_and_after_decides(before: str, after: str, expected: str) -> None:
    assert compare_spread(over(*before), over(*after)) == expected


def test_restart_that_ends_well_spread_with_other_replicas_is_improved() -> None:
    assert compare_spread(over(*"aaaa"), over(*"ab"), is_even=True) == "improved"
    assert compare_spread(over(*"aaaa"), over("a"), is_even=True) == "unchanged", "one replica has no spread"


@pytest.mark.parametrize(
    ("began", "after", "expected"),
    [
        ("aaaab", "aaabc", "improved"),
        ("aaaab", "aaaab", "unchanged"),
        ("aaaab", "aaaaa", "unchanged"),
        pytest.param("aaaab", "ab", "unchanged", id="two replicas that an autoscaler leaves are even by themselves"),
        pytest.param("aabbcc", "aabbcc", "unchanged", id="a job with a laxer max_skew only checks"),
    ],
)
def test_attempt_of_another_process_is_improved_if_it_has_made_progress(began: str, after: str, expected: str) -> None:
    assert compare_spread(None, over(*after), pending=pending_since(began)) == expected
    assert compare_spread(None, over(*after)) == "unchanged", "without a record nothing is known"
