# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes for which pending pods are nominated."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible

from tests.unit.support.cluster import cluster_state, feasibility_of
from tests.unit.support.objects import Json, affinity_term, anti_affinity, container, node, pod, pod_affinity

HOST = "kubernetes.io/hostname"
NODES = [node("node-1", labels={HOST: "node-1"}), node("node-2", labels={HOST: "node-2"})]
BIG = {"cpu": "3"}


def promised(requests: Json | None = None, *, node_name: str = "node-1", **more: t.Any) -> Pod:
    return pod(requests, status={"phase": "Pending", "nominatedNodeName": node_name}, **more)


def template(requests: Json | None = None, **spec: t.Any) -> Pod:
    manifest = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container(requests)], **spec}}
    return pod_of_template("default", decode_json(PodTemplate, encode_json(manifest)))


@pytest.mark.parametrize(
    ("priority", "nominated", "goes_first"),
    [(0, 0, True), (0, 10, True), (10, 0, False), (10, 10, True), (None, 0, True), (None, -1, False), (0, None, True)],
)
def test_nominated_pods_of_the_same_or_higher_priority_keep_their_capacity(
    priority: int | None, nominated: int | None, goes_first: bool
) -> None:
    found = feasibility_of(pod(BIG, priority=priority), NODES, [promised(BIG, priority=nominated)])
    assert found.feasible == (("node-2",) if goes_first else ("node-1", "node-2"))
    assert {name: [reason.code for reason in reasons] for name, reasons in found.rejected.items()} == (
        {"node-1": ["insufficient_cpu"]} if goes_first else {}
    )
    assert not found.unknown_nodes


@pytest.mark.parametrize(
    ("spec", "nominated", "code"),
    [
        (
            {"containers": [container(ports=[{"hostPort": 80}])]},
            promised(containers=[container(ports=[{"hostPort": 80}])]),
            "host_ports",
        ),
        ({"affinity": anti_affinity({"app": "db"})}, promised(labels={"app": "db"}), "pod_anti_affinity"),
        # Affinity must hold without the nominated pod: it may never come.
        ({"affinity": pod_affinity(affinity_term({"app": "db"}))}, promised(labels={"app": "db"}), "pod_affinity"),
        ({}, promised(), ""),
    ],
)
def test_all_rules_must_hold_with_and_without_the_nominated_pod(spec: Json, nominated: Pod, code: str) -> None:
    found = feasibility_of(pod(**spec), NODES[:1], [nominated])
    assert [reason.code for reason in found.rejected.get("node-1", ())] == ([code] if code else [])


def test_anti_affinity_of_nominated_pods_counts_only_where_running_pods_or_the_pod_have_terms_too() -> None:
    # The scheduler skips its plugin for the whole attempt when it finds no term before it reads nominated pods.
    nominated = promised(affinity=anti_affinity({"app": "web"}))
    new = pod(labels={"app": "web"})
    assert feasibility_of(new, NODES, [nominated]).feasible == ("node-1", "node-2")
    elsewhere = pod(on="node-2", affinity=anti_affinity({"app": "web"}))
    found = feasibility_of(new, NODES, [nominated, elsewhere])
    assert {name: reasons[0].code for name, reasons in found.rejected.items()} == dict.fromkeys(
        ["node-1", "node-2"], "existing_pod_anti_affinity"
    )
    # Of terms for pods of namespaces that could not be read it is not known whether they bring the plugin into play.
    perhaps = pod(on="node-2", affinity=anti_affinity({"app": "web"}, "rack", namespaceSelector={"matchLabels": {"team": "x"}}))
    racks = [NODES[0], node("node-2", labels={HOST: "node-2", "rack": "r"})]
    assert {
        name: reason.code for name, (reason,) in feasibility_of(new, racks, [nominated, perhaps]).unknown_nodes.items()
    } == dict.fromkeys(["node-1", "node-2"], "namespace_labels")


def test_a_second_first_pod_of_a_group_does_not_start_another_group() -> None:
    # Nominated for node-1 is the first pod of the group: beside it the new one fits, and on node-2 nobody is of the group yet.
    group = pod_affinity(affinity_term({"app": "web"}))
    found = feasibility_of(pod(labels={"app": "web"}, affinity=group), NODES, [promised(labels={"app": "web"}, affinity=group)])
    assert found.feasible == ("node-1", "node-2")


def test_the_pod_s_own_nomination_and_those_of_gone_pods_or_nodes_do_not_count() -> None:
    own = promised(BIG)
    now = cluster_state(NODES, [own, promised(BIG, node_name="gone")])
    assert find_feasible(own, now).feasible == ("node-1", "node-2")
    now.remove(own)
    assert find_feasible(pod(BIG), now).feasible == ("node-1", "node-2")


@pytest.mark.parametrize(
    ("pending", "unknown"),
    [
        (promised(BIG, schedulerName="other"), True),
        (promised(BIG, schedulingGates=[{"name": "wait"}]), True),
        # The pod fits also together with it.
        (promised(schedulerName="other"), False),
        (promised(BIG, priority=-5, schedulerName="other"), False),
    ],
)
def test_a_nomination_that_the_scheduler_may_not_know_of_leaves_the_node_unknown(pending: Pod, unknown: bool) -> None:
    found = feasibility_of(pod(BIG), NODES, [pending])
    assert {name: [reason.code for reason in reasons] for name, reasons in found.unknown_nodes.items()} == (
        {"node-1": ["nominated_pod"]} if unknown else {}
    )
    assert found.feasible == (("node-2",) if unknown else ("node-1", "node-2"))


@pytest.mark.parametrize(
    ("spec", "nominated", "answer"),
    [
        ({}, 0, "unknown"),
        ({"priority": 5}, 0, "feasible"),
        ({"priority": 5}, 5, "rejected"),
        # No class of users is above that.
        ({}, 2_000_000_000, "rejected"),
        ({"priorityClassName": "gold"}, 0, "feasible"),
        ({"priorityClassName": "gold"}, 100, "rejected"),
        ({"priorityClassName": "system-cluster-critical"}, 1000, "feasible"),
        ({"priorityClassName": "system-cluster-critical"}, 2_000_001_000, "rejected"),
        # Not seen on any pod, or with two values.
        ({"priorityClassName": "silver"}, 0, "unknown"),
        ({"priorityClassName": "changed"}, 0, "unknown"),
    ],
)
def test_a_template_has_the_priority_that_pods_of_its_class_have(spec: Json, nominated: int, answer: str) -> None:
    others = [pod(on="node-2", priorityClassName=name, priority=value) for name, value in (("gold", 100), ("changed", 1), ("changed", 2))]
    found = feasibility_of(template(BIG, **spec), NODES[:1], [promised(BIG, priority=nominated), *others])
    assert {"feasible": found.feasible, "rejected": tuple(found.rejected), "unknown": tuple(found.unknown_nodes)}[answer] == ("node-1",)


def test_a_rejected_node_stays_rejected_whatever_is_unknown_on_it() -> None:
    found = feasibility_of(pod({"cpu": "9"}), NODES, [promised(BIG, schedulerName="other")])
    assert list(found.rejected) == ["node-1", "node-2"]
    assert not found.unknown_nodes
