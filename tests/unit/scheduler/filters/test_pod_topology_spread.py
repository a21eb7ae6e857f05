# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Declared spread constraints with DoNotSchedule."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.filters.pod_topology_spread import TOO_SKEWED
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.filters.spread_domains import MAX_CACHED

from tests.unit.support.cluster import cluster_state, feasibility_of
from tests.unit.support.objects import Json, node, node_affinity, pod

HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
SELECTS_WEB = {"matchLabels": WEB}
# Two nodes in zone a, one in b, one that is in none.
NODES = [
    node("a-1", labels={HOST: "a-1", "zone": "a"}),
    node("a-2", labels={HOST: "a-2", "zone": "a"}),
    node("b-1", labels={HOST: "b-1", "zone": "b"}),
    node("x-1", labels={HOST: "x-1"}),
]


def spread(key: str = "zone", *, skew: int = 1, selector: Json | None = SELECTS_WEB, **more: t.Any) -> Json:
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **more}


def incoming(*constraints: Json, labels: Json | None = None, **spec: t.Any) -> Pod:
    return pod(labels=WEB if labels is None else labels, topologySpreadConstraints=list(constraints), **spec)


def on(*nodes: str, labels: Json | None = None, **more: t.Any) -> list[Pod]:
    return [pod(on=name, labels=WEB if labels is None else labels, **more) for name in nodes]


@pytest.mark.parametrize(
    ("constraint", "pods", "feasible"),
    [
        pytest.param(spread(), [], "a-1 a-2 b-1", id="no pods yet"),
        pytest.param(spread(), on("a-1"), "b-1", id="the domain counts, not the node"),
        pytest.param(spread(), on("a-1", "b-1"), "a-1 a-2 b-1", id="even"),
        pytest.param(spread(skew=2), on("a-1"), "a-1 a-2 b-1", id="a larger skew is allowed"),
        pytest.param(spread(skew=2), on("a-1", "a-2"), "b-1", id="until it is reached"),
        pytest.param(spread(HOST), on("a-1", "b-1"), "a-2 x-1", id="by host"),
        pytest.param(spread(), on("x-1", "x-1"), "a-1 a-2 b-1", id="pods outside of all domains do not count"),
        pytest.param(spread(whenUnsatisfiable="ScheduleAnyway"), on("a-1"), "a-1 a-2 b-1 x-1", id="soft"),
        pytest.param(spread("rack"), on("a-1"), "", id="a key that no node has"),
    ],
)
def test_the_skew_over_all_domains_is_bounded(constraint: Json, pods: list[Pod], feasible: str) -> None:
    assert feasibility_of(incoming(constraint), NODES, pods).feasible == tuple(feasible.split())


def test_both_reasons_are_the_schedulers() -> None:
    found = feasibility_of(incoming(spread()), NODES, on("a-1"))
    texts = {name: [(reason.code, reason.text) for reason in reasons] for name, reasons in found.rejected.items()}
    too_skewed = [("topology_spread", "node(s) didn't match pod topology spread constraints")]
    no_domain = [("topology_spread_label", "node(s) didn't match pod topology spread constraints (missing required label)")]
    assert texts == {"a-1": too_skewed, "a-2": too_skewed, "x-1": no_domain}
    assert not found.unknown


@pytest.mark.parametrize(
    ("pods", "feasible"),
    [
        pytest.param(on("a-1", namespace="other"), "a-1 a-2 b-1", id="another namespace"),
        pytest.param(on("a-1", labels={"app": "db"}), "a-1 a-2 b-1", id="other labels"),
        pytest.param(on("a-1", labels={}), "a-1 a-2 b-1", id="no labels"),
        pytest.param(on("a-1", status={"phase": "Succeeded"}), "a-1 a-2 b-1", id="finished"),
        pytest.param(on("a-1", status={"phase": "Failed"}), "a-1 a-2 b-1", id="failed"),
        pytest.param(on("a-1", status={"phase": "Pending"}), "b-1", id="starting"),
        pytest.param(on(""), "a-1 a-2 b-1", id="pending"),
        pytest.param(on("gone"), "a-1 a-2 b-1", id="on a node that is gone"),
    ],
)
def test_which_pods_count(pods: list[Pod], feasible: str) -> None:
    assert feasibility_of(incoming(spread()), NODES, pods).feasible == tuple(feasible.split())


@pytest.mark.parametrize(
    ("selector", "labels", "feasible"),
    [
        pytest.param(None, WEB, "a-1 a-2 b-1", id="an absent selector selects nothing"),
        pytest.param({}, WEB, "a-1 a-2 b-1", id="an empty selector counts nothing"),
        pytest.param(SELECTS_WEB, {"app": "db"}, "a-1 a-2 b-1", id="a pod that is not selected makes nothing fuller"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}, WEB, "b-1", id="In"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, WEB, "a-1 a-2 b-1", id="In others"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, WEB, "b-1", id="Exists"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, WEB, "b-1", id="NotIn"),
        pytest.param({"matchExpressions": [{"key": "new", "operator": "DoesNotExist"}]}, WEB, "b-1", id="DoesNotExist"),
        pytest.param(
            {"matchLabels": WEB, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x"]}]}, WEB, "a-1 a-2 b-1", id="both"
        ),
    ],
)
def test_selectors(selector: Json | None, labels: Json, feasible: str) -> None:
    assert feasibility_of(incoming(spread(selector=selector), labels=labels), NODES, on("a-1")).feasible == tuple(feasible.split())


def test_a_pod_that_its_own_selector_leaves_out_is_bounded_by_the_others() -> None:
    assert feasibility_of(incoming(spread(), labels={"app": "db"}), NODES, on("a-1", "a-1")).feasible == ("b-1",)


@pytest.mark.parametrize(
    ("keys", "labels", "feasible"),
    [
        pytest.param(["revision"], {"app": "web", "revision": "2"}, "a-1 a-2 b-1", id="another value"),
        pytest.param(["revision"], {"app": "web", "revision": "1"}, "b-1", id="the same value"),
        pytest.param(["revision"], WEB, "b-1", id="a key that the pod does not have"),
        pytest.param(["absent", "revision"], {"app": "web", "revision": "2"}, "a-1 a-2 b-1", id="several keys"),
    ],
)
def test_match_label_keys_take_the_pods_own_values(keys: list[str], labels: Json, feasible: str) -> None:
    others = on("a-1", labels={"app": "web", "revision": "1"})
    assert feasibility_of(incoming(spread(matchLabelKeys=keys), labels=labels), NODES, others).feasible == tuple(feasible.split())


@pytest.mark.parametrize(("selector", "feasible"), [(None, "a-1 a-2 b-1"), ({}, "b-1")])
def test_match_label_keys_add_to_an_empty_selector_and_not_to_an_absent_one(selector: Json | None, feasible: str) -> None:
    constraint = spread(selector=selector, matchLabelKeys=["app"])
    assert feasibility_of(incoming(constraint), NODES, on("a-1")).feasible == tuple(feasible.split())


@pytest.mark.parametrize(
    ("min_domains", "feasible"),
    [(None, "a-1 a-2 b-1"), (1, "a-1 a-2 b-1"), (2, "a-1 a-2 b-1"), (3, "")],
)
def test_with_fewer_domains_than_wanted_the_emptiest_counts_as_empty(min_domains: int | None, feasible: str) -> None:
    constraint = spread(minDomains=min_domains)
    assert feasibility_of(incoming(constraint), NODES, on("a-1", "b-1")).feasible == tuple(feasible.split())


@pytest.mark.parametrize(
    ("policies", "feasible"),
    [
        pytest.param({}, "a-1", id="by default affinity is honored and taints are not"),
        pytest.param({"nodeTaintsPolicy": "Honor"}, "a-1", id="both"),
        pytest.param({"nodeAffinityPolicy": "Ignore"}, "", id="none"),
    ],
)
def test_nodes_that_the_affinity_leaves_out_count_only_where_it_is_ignored(policies: Json, feasible: str) -> None:
    affinity = node_affinity({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]})
    now = [NODES[0], NODES[2]]
    assert feasibility_of(incoming(spread(**policies), affinity=affinity), now, on("a-1")).feasible == tuple(feasible.split())
    assert feasibility_of(incoming(spread(**policies), nodeSelector={"zone": "a"}), now, on("a-1")).feasible == tuple(feasible.split())


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", "PreferNoSchedule"])
@pytest.mark.parametrize("policy", [None, "Ignore", "Honor"])
def test_tainted_nodes_do_not_count_where_taints_are_honored(policy: str | None, effect: str) -> None:
    taint = {"key": "dedicated", "value": "db", "effect": effect}
    now = [NODES[0], node("b-1", labels={"zone": "b"}, taints=[taint])]
    found = feasibility_of(incoming(spread(nodeTaintsPolicy=policy)), now, on("a-1"))
    assert ("a-1" in found.feasible) is (policy == "Honor" and effect != "PreferNoSchedule")
    tolerant = incoming(spread(nodeTaintsPolicy=policy), tolerations=[{"operator": "Exists"}])
    assert feasibility_of(tolerant, now, on("a-1")).feasible == ("b-1",)


def test_a_cordon_alone_is_no_taint() -> None:
    now = [NODES[0], node("b-1", labels={"zone": "b"}, cordoned=True)]
    assert not feasibility_of(incoming(spread(nodeTaintsPolicy="Honor")), now, on("a-1")).feasible


def test_a_node_that_does_not_count_is_judged_by_the_others_of_its_domain() -> None:
    now = [NODES[0], node("a-2", labels={"zone": "a"}, taints=[{"key": "t", "effect": "NoSchedule"}]), NODES[2]]
    pods = on("a-2", "a-2", "a-2")
    assert feasibility_of(incoming(spread(nodeTaintsPolicy="Honor")), now, pods).feasible == ("a-1", "b-1")
    assert feasibility_of(incoming(spread()), now, pods).feasible == ("b-1",)


def test_every_constraint_must_hold_and_the_first_gives_the_reason() -> None:
    zones, hosts = spread(), spread(HOST)
    found = feasibility_of(incoming(zones, hosts), NODES, on("a-1", "b-1"))
    assert found.feasible == ("a-2",)
    assert [reason.code for reason in found.rejected["x-1"]] == ["topology_spread_label"]
    found = feasibility_of(incoming(hosts, zones), NODES, on("x-1"))
    assert found.feasible == ("a-1", "a-2", "b-1")


def test_nodes_without_all_keys_count_for_no_constraint() -> None:
    # By host alone x-1 would be empty, and both others too full.
    now = [NODES[0], NODES[2], NODES[3]]
    assert feasibility_of(incoming(spread(HOST)), now, on("a-1", "b-1")).feasible == ("x-1",)
    assert feasibility_of(incoming(spread(HOST), spread()), now, on("a-1", "b-1")).feasible == ("a-1", "b-1")
    # A soft constraint does not ask for its key.
    soft = spread(whenUnsatisfiable="ScheduleAnyway")
    assert feasibility_of(incoming(spread(HOST), soft), now, on("a-1", "b-1")).feasible == ("x-1",)


def test_an_empty_value_is_a_domain() -> None:
    now = [node("e-1", labels={"zone": ""}), NODES[0]]
    assert feasibility_of(incoming(spread()), now, on("e-1")).feasible == ("a-1",)


def test_terminating_pods_do_not_count() -> None:
    old = pod(on="a-1", labels=WEB)
    leaving = replace(old, metadata=replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    now = cluster_state(NODES, [leaving])
    assert find_feasible(incoming(spread()), now).feasible == ("a-1", "a-2", "b-1")
    now.remove(leaving)
    assert find_feasible(incoming(spread()), now).feasible == ("a-1", "a-2", "b-1")


class TestChanges:
    """Counts follow the pods that are removed and assigned after the cluster state was read."""

    def test_pods_that_left_do_not_count_and_pods_that_came_do(self) -> None:
        first, *_others = pods = on("a-1", "b-1")
        now = cluster_state(NODES, pods)
        new = incoming(spread())
        now.remove(first)
        assert find_feasible(new, now).feasible == ("a-1", "a-2")
        now.assign(first, "b-1")
        assert find_feasible(new, now).feasible == ("a-1", "a-2")
        now.assign(first, "a-2")
        assert find_feasible(new, now).feasible == ("a-1", "a-2", "b-1")
        now.remove(first)
        now.remove(first)
        assert find_feasible(new, now).feasible == ("a-1", "a-2")

    def test_a_fork_counts_for_itself(self) -> None:
        old = on("a-1")
        base = cluster_state(NODES, old)
        fork = base.fork()
        fork.remove(old[0])
        fork.assign(pod(labels=WEB), "b-1")
        assert find_feasible(incoming(spread()), base).feasible == ("b-1",)
        assert find_feasible(incoming(spread()), fork).feasible == ("a-1", "a-2")
        assert find_feasible(incoming(spread()), fork.fork()).feasible == ("a-1", "a-2")

    def test_changes_are_counted_by_the_same_rules(self) -> None:
        now = cluster_state(NODES)
        for other in (pod(labels={"app": "db"}), pod(labels=WEB, namespace="other"), pod()):
            now.assign(other, "a-1")
        now.assign(pod(labels=WEB), "x-1")
        assert find_feasible(incoming(spread()), now).feasible == ("a-1", "a-2", "b-1")

    def test_a_pod_leaves_with_the_labels_that_it_was_counted_by(self) -> None:
        old = pod(on="a-1", labels=WEB)
        now = cluster_state(NODES, [old])
        now.remove(replace(old, metadata=replace(old.metadata, labels=None)))
        assert find_feasible(incoming(spread()), now).feasible == ("a-1", "a-2", "b-1")


def test_more_kinds_of_pods_than_are_remembered_get_the_same_answers() -> None:
    now = cluster_state([NODES[0], NODES[2]], on("a-1"))
    for number in range(MAX_CACHED + 2):
        names = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [f"n-{number}"]}]}
        assert find_feasible(incoming(spread(), affinity=node_affinity(names)), now).feasible == ("b-1",)
    assert find_feasible(incoming(spread(), nodeSelector={"zone": "a"}), now).feasible == ("a-1",)


# --- nominated pods ---------------------------------------------------------------------------------------------------


def promised(node_name: str, labels: Json, *, terminating: bool = False, namespace: str = "default") -> Pod:
    found = pod(labels=labels, namespace=namespace, status={"phase": "Pending", "nominatedNodeName": node_name})
    if not terminating:
        return found
    return replace(found, metadata=replace(found.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("constraint", "nominated", "feasible"),
    [
        pytest.param(spread(), promised("a-1", WEB), "a-2 b-1", id="it counts on its own node alone"),
        pytest.param(spread(), promised("a-1", {"app": "db"}), "a-1 a-2 b-1", id="other labels"),
        pytest.param(spread(), promised("a-1", WEB, namespace="other"), "a-1 a-2 b-1", id="another namespace"),
        pytest.param(spread(), promised("a-1", WEB, terminating=True), "a-2 b-1", id="terminating"),
        pytest.param(spread(selector={}), promised("a-1", {}), "a-2 b-1", id="of an empty selector, which counts no pods that run"),
        pytest.param(spread(selector=None), promised("a-1", WEB), "a-1 a-2 b-1", id="no selector"),
        pytest.param(spread(), promised("gone", WEB), "a-1 a-2 b-1", id="for a node that is gone"),
    ],
)
def test_nominated_pods_count_by_the_selector_alone(constraint: Json, nominated: Pod, feasible: str) -> None:
    found = feasibility_of(incoming(constraint), NODES, [nominated])
    assert found.feasible == tuple(feasible.split())
    assert found.rejected.get("a-1", ()) == (() if "a-1" in feasible else TOO_SKEWED)
