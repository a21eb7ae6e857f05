# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A scheduler's profile changes the filters: it disables them, and adds affinity, constraints and ignored resources."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, NodeSelector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import TopologySpreadConstraint
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import SchedulerProfile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eligible_nodes import eligible_nodes

from tests.unit.support.cluster import cluster_state, workers
from tests.unit.support.objects import Json, affinity_term, container, node, node_affinity, pod


def fence(*terms: Json) -> SchedulerProfile:
    return SchedulerProfile(added_affinity=decode_json(NodeSelector, encode_json({"nodeSelectorTerms": list(terms)})))


IN_ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NAMED_2 = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HARD = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "db"}}}
NODES = [node("node-1", labels={"zone": "a"}), node("node-2", labels={"zone": "b"}), node("node-3")]


@pytest.mark.parametrize(
    ("profile", "spec", "feasible", "texts"),
    [
        (fence(IN_ZONE_A), {}, ["node-1"], {"node(s) didn't match scheduler-enforced node affinity"}),
        (fence(IN_ZONE_A, NAMED_2), {}, ["node-1", "node-2"], {"node(s) didn't match scheduler-enforced node affinity"}),
        # Both must hold, and what the profile adds is asked first.
        (fence(IN_ZONE_A), {"nodeSelector": {"zone": "b"}}, [], {
            "node(s) didn't match scheduler-enforced node affinity",
            "node(s) didn't match Pod's node affinity/selector",
        }),
        # Only the pod's own affinity leaves nodes out by name before any plugin is asked.
        (fence(NAMED_2), {}, ["node-2"], {"node(s) didn't match scheduler-enforced node affinity"}),
        (fence(IN_ZONE_A), {"affinity": node_affinity(NAMED_2)}, [], {
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            "node(s) didn't match scheduler-enforced node affinity",
        }),
    ],
)  # fmt: skip
def test_added_affinity_holds_beside_the_pod_s_own(profile: SchedulerProfile, spec: Json, feasible: list[str], texts: set[str]) -> None:
    found = find_feasible(pod(**spec), cluster_state(NODES), profiles={"default-scheduler": profile})
    assert list(found.feasible) == feasible
    assert {reason.text for reason, _count in found.counts()} == texts


@pytest.mark.parametrize(
    ("profile", "resource", "ignored"),
    [
        (SchedulerProfile(), "example.com/gpu", False),
        (SchedulerProfile(ignored_resources=frozenset({"example.com/gpu"})), "example.com/gpu", True),
        (SchedulerProfile(ignored_resources=frozenset({"example.com/gpu"})), "example.com/nic", False),
        (SchedulerProfile(ignored_resource_groups=frozenset({"example.com"})), "example.com/nic", True),
        (SchedulerProfile(ignored_resource_groups=frozenset({"example.com"})), "gpu.example.com/nic", False),
        # Only extended resources can be ignored.
        (SchedulerProfile(ignored_resources=frozenset({"cpu"})), "cpu", False),
        (SchedulerProfile(ignored_resources=frozenset({"hugepages-2Mi"})), "hugepages-2Mi", False),
        (SchedulerProfile(ignored_resource_groups=frozenset({"storage.kubernetes.io"})), "storage.kubernetes.io/slots", False),
    ],
)
def test_ignored_resources_need_not_be_there(profile: SchedulerProfile, resource: str, ignored: bool) -> None:
    found = find_feasible(pod({resource: "9"}), cluster_state([node()]), profiles={"default-scheduler": profile})
    assert bool(found.feasible) is ignored


def test_each_pod_is_judged_by_the_profile_of_its_scheduler() -> None:
    profiles = {"default-scheduler": SchedulerProfile(), "fenced": fence(IN_ZONE_A)}
    assert len(find_feasible(pod(), cluster_state(NODES), profiles=profiles).feasible) == 3
    assert find_feasible(pod(schedulerName="fenced"), cluster_state(NODES), profiles=profiles).feasible == ("node-1",)
    other = find_feasible(pod(schedulerName="other"), cluster_state(NODES), profiles=profiles)
    assert [reason.code for reason in other.unknown] == ["foreign_scheduler"]


def without(*plugins: str, **fields: Any) -> SchedulerProfile:
    return SchedulerProfile(disabled_filters=frozenset(plugins), **fields)


@pytest.mark.parametrize(
    ("plugin", "a_node", "spec"),
    [
        ("NodeResourcesFit", node(allocatable={"cpu": "1", "pods": "0"}), {"requests": {"cpu": "2"}}),
        ("TaintToleration", node(taints=[{"key": "a", "effect": "NoSchedule"}]), {}),
        ("NodeUnschedulable", node(cordoned=True), {}),
        ("NodeAffinity", node(), {"nodeSelector": {"zone": "a"}}),
        ("NodeAffinity", node(), {"affinity": node_affinity(IN_ZONE_A)}),
        ("NodeName", node(), {"on": "another-node"}),
        ("InterPodAffinity", node(), {"affinity": {"podAffinity": {REQUIRED: [affinity_term({"app": "db"})]}}}),
        ("PodTopologySpread", node(), {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", **HARD}]}),
    ],
)
def test_disabled_filter_rejects_no_node(plugin: str, a_node: Node, spec: Json) -> None:
    asked = pod(spec.get("requests"), **{name: value for name, value in spec.items() if name != "requests"})
    assert not find_feasible(asked, cluster_state([a_node])).feasible
    assert find_feasible(asked, cluster_state([a_node], profiles={"default-scheduler": without(plugin)})).feasible == ("node-1",)
    assert not find_feasible(asked, cluster_state([a_node], profiles={"default-scheduler": without("ImageLocality")})).feasible


def test_disabled_filter_of_host_ports_rejects_no_node() -> None:
    with_port = {"containers": [container(ports=[{"hostPort": 80, "containerPort": 80}])]}
    asked, running = pod(**with_port), pod(on="node-1", **with_port)
    assert not find_feasible(asked, cluster_state([node()], [running])).feasible
    assert find_feasible(asked, cluster_state([node()], [running], profiles={"default-scheduler": without("NodePorts")})).feasible


def test_names_in_the_affinity_count_until_the_pre_filter_is_disabled_too() -> None:
    asked = pod(affinity=node_affinity(NAMED_2))
    only_filter = {"default-scheduler": without("NodeAffinity")}
    assert find_feasible(asked, cluster_state(NODES, profiles=only_filter)).feasible == ("node-2",)
    both = {"default-scheduler": without("NodeAffinity", disabled_pre_filters=frozenset({"NodeAffinity"}))}
    assert len(find_feasible(asked, cluster_state(NODES, profiles=both)).feasible) == 3


def test_node_that_only_the_profile_opens_or_closes_is_eligible_or_not() -> None:
    nodes = [node("tainted", taints=[{"key": "a", "effect": "NoSchedule"}]), node("fenced", labels={"zone": "b"})]
    assert eligible_nodes(pod(), nodes) == ["fenced"]
    assert eligible_nodes(pod(), nodes, without("TaintToleration")) == ["tainted", "fenced"]
    assert eligible_nodes(pod(), nodes, fence(IN_ZONE_A)) == []


EVEN = TopologySpreadConstraint(max_skew=1, topology_key="kubernetes.io/hostname", when_unsatisfiable="DoNotSchedule")
SPREADING = {"default-scheduler": SchedulerProfile(default_constraints=(EVEN,))}


def test_default_constraints_count_the_pods_of_the_same_controller_and_revision() -> None:
    cluster = workers(3)
    cluster.stateful_set("db", ["worker-1", "worker-2"], selector={"matchLabels": {"app": "db"}})
    cluster.deployment("web", ["worker-1", "worker-1"])
    found = cluster.snapshot(profiles=SPREADING)
    of_set = pod_of_workload(cluster.stateful_sets[0])
    assert find_feasible(of_set, ClusterState.of(found)).feasible == ("worker-3",)
    # The pods of the present revision do not count for those of the next one.
    of_deployment = pod_of_workload(cluster.deployments[0])
    assert len(find_feasible(of_deployment, ClusterState.of(found)).feasible) == 3


def test_own_constraints_replace_the_default_ones() -> None:
    cluster = workers(3)
    template = {"spec": {"topologySpreadConstraints": [{"maxSkew": 5, "topologyKey": "kubernetes.io/hostname", **HARD}]}}
    cluster.stateful_set("db", ["worker-1"], template=template, selector={"matchLabels": {"app": "db"}})
    found = find_feasible(pod_of_workload(cluster.stateful_sets[0]), ClusterState.of(cluster.snapshot(profiles=SPREADING)))
    assert (len(found.feasible), found.unknown) == (3, ())


def test_pods_that_default_constraints_count_are_unknown_without_a_controller() -> None:
    found = find_feasible(pod(), ClusterState.of(workers(3).snapshot(profiles=SPREADING)))
    assert [reason.code for reason in found.unknown] == ["default_constraints"]


def test_pod_is_uncertain_for_a_filter_that_is_not_known() -> None:
    unknown = Reason("depends_on_extender", "an extender of the scheduler may reject nodes")
    found = find_feasible(pod(), cluster_state([node()], profiles={"default-scheduler": SchedulerProfile(unknown=(unknown,))}))
    assert (found.feasible, found.unknown) == (("node-1",), (unknown,))


def test_only_pods_with_a_managed_resource_are_uncertain_for_its_extender() -> None:
    profiles = {"default-scheduler": SchedulerProfile(extender_resources=frozenset({"example.com/gpu"}))}
    state = cluster_state([node(allocatable={"example.com/gpu": "1"})], profiles=profiles)
    assert not find_feasible(pod(), state).unknown
    assert [reason.code for reason in find_feasible(pod({"example.com/gpu": "1"}), state).unknown] == ["depends_on_extender"]


def test_nomination_by_another_scheduler_counts_as_possible_only() -> None:
    # Two schedulers do not see each other's nominations, but each of them may bind its pod first.
    waiting = pod({"cpu": "3"}, schedulerName="quiet", priority=10, status={"phase": "Pending", "nominatedNodeName": "node-1"})
    same = {"default-scheduler": SchedulerProfile(scheduler="a"), "quiet": SchedulerProfile(scheduler="a")}
    assert "node-1" in find_feasible(pod({"cpu": "3"}), cluster_state([node()], [waiting], profiles=same)).rejected
    other = {**same, "quiet": SchedulerProfile(scheduler="b")}
    assert "node-1" in find_feasible(pod({"cpu": "3"}), cluster_state([node()], [waiting], profiles=other)).unknown_nodes
