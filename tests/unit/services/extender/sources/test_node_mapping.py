# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Series are mapped to nodes by rules in their order, and an ambiguous series is mapped to no node."""

from __future__ import annotations

import json

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.label_sets import LabelSet, LabelSets
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.node_mapping import NodeMapper, nodenames_of
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import NODE_RULES

NODES = [
    NodeIdentity("worker-1", ("10.0.0.1", "fd00::1"), "host-1"),
    NodeIdentity("worker-2.example.com", ("10.0.0.2",), "host-2"),
    NodeIdentity("10.0.0.3", ("10.0.0.4",)),
    NodeIdentity("twin-1", ("10.0.0.8",)),
    NodeIdentity("twin-2", ("10.0.0.8",)),
    NodeIdentity("same.one.example", ("10.1.0.1",)),
    NodeIdentity("same.two.example", ("10.1.0.2",)),
]


def labels(**given: str) -> LabelSet:
    return LabelSets("instance").made(json.dumps(given).encode())


def mapped(instance: str, nodename: str = "", rules: tuple[str, ...] = NODE_RULES) -> tuple[str | None, str]:
    mapper = NodeMapper("instance", rules)
    mapper.use(NODES)
    mapper.use_nodenames({instance: nodename} if nodename else {})
    found = labels(instance=instance)
    return mapper.node_of(found), found.why


@pytest.mark.parametrize(
    ("instance", "nodename", "node"),
    [
        ("worker-1", "", "worker-1"),
        ("worker-1:9100", "", "worker-1"),
        ("10.0.0.1:9100", "", "worker-1"),
        ("10.0.0.1", "", "worker-1"),
        ("[fd00::1]:9100", "", "worker-1"),
        ("fd00::1", "", "worker-1"),
        ("host-2:9100", "", "worker-2.example.com"),
        ("10.9.9.9:9100", "worker-1", "worker-1"),
        ("10.9.9.9:9100", "host-2", "worker-2.example.com"),
        ("worker-2:9100", "", "worker-2.example.com"),
        ("worker-1.example.com:9100", "", "worker-1"),
        ("10.9.9.9:9100", "worker-2", "worker-2.example.com"),
        ("10.0.0.3:9100", "", "10.0.0.3"),
        ("10.0.0.4:9100", "", "10.0.0.3"),
        ("same.two.example:9100", "", "same.two.example"),
        ("worker-2.other.org:9100", "", None),
        ("10.0.0.9:9100", "", None),
        ("", "", None),
    ],
)
def test_the_first_rule_that_finds_a_node_decides(instance: str, nodename: str, node: str | None) -> None:
    assert mapped(instance, nodename)[0] == node


def test_an_address_of_two_nodes_is_ambiguous() -> None:
    assert mapped("10.0.0.8:9100") == (None, "the address 10.0.0.8 belongs to 2 nodes: twin-1, twin-2")


def test_a_short_name_of_two_nodes_is_ambiguous() -> None:
    assert mapped("same:9100") == (None, "the short name same belongs to 2 nodes: same.one.example, same.two.example")


def test_only_the_rules_of_the_settings_are_used() -> None:
    assert mapped("10.0.0.1:9100", "worker-1", rules=("name", "host"))[0] is None
    assert mapped("10.0.0.9:9100", "worker-1", rules=("uname",))[0] == "worker-1"


def test_an_instance_with_two_host_names_has_none() -> None:
    sets = [labels(instance="i", nodename="one"), labels(instance="i", nodename="two"), labels(instance="j", nodename="three")]
    assert nodenames_of(sets) == {"j": "three"}


def test_a_series_is_mapped_again_when_the_nodes_change() -> None:
    mapper, found = NodeMapper("instance"), labels(instance="10.0.0.1:9100")
    mapper.use(NODES)
    assert mapper.node_of(found) == "worker-1"
    mapper.use([NodeIdentity("new", ("10.0.0.1",))])
    assert mapper.node_of(found) == "new"
    mapper.use([])
    assert mapper.node_of(found) is None


def test_another_label_can_have_the_name_of_the_node() -> None:
    mapper = NodeMapper("node")
    mapper.use(NODES)
    assert mapper.node_of(labels(instance="x", node="worker-1")) == "worker-1"
    mapper.use(None)
    assert mapper.node_of(labels(instance="x", node="10.0.0.1")) == "10.0.0.1"


def test_mapping_a_large_cluster_again_finds_each_node_in_the_label_set() -> None:
    """The rules run once for each label set. Without this, 5,000 nodes would cost a part of every refresh."""
    sets = [labels(instance=f"10.0.{number // 250}.{number % 250}:9100") for number in range(1000)]
    mapper = NodeMapper("instance")
    mapper.use([NodeIdentity(f"node-{number}", (f"10.0.{number // 250}.{number % 250}",)) for number in range(1000)])
    first = [mapper.node_of(one) for one in sets]
    assert first == [f"node-{number}" for number in range(1000)]
    mapper._find = None  # type: ignore[assignment,method-assign]
    assert [mapper.node_of(one) for one in sets] == first
