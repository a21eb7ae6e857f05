# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Required affinity and anti-affinity between pods."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template, pod_of_workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, find_feasible

from tests.unit.support.cluster import cluster_state, feasibility_of
from tests.unit.support.objects import Json, affinity_term, anti_affinity, container, node, pod, pod_affinity

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
A1 = node("a-1", labels={HOST: "a-1", ZONE: "a"})
A2 = node("a-2", labels={HOST: "a-2", ZONE: "a"})
B1 = node("b-1", labels={HOST: "b-1", ZONE: "b"})
BARE = node("bare", labels={HOST: "bare"})
NODES = [A1, A2, B1, BARE]
WEB = {"app": "web"}


def rejected(found: Feasibility) -> dict[str, str]:
    assert not found.unknown and not found.unknown_nodes
    return {name: reason.text for name, (reason,) in found.rejected.items()}


def out(text: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, text)


def terminating(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z"))


AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"


@pytest.mark.parametrize(
    ("own", "there", "expected"),
    [
        (anti_affinity(WEB), pod(on="a-1", labels=WEB), out(ANTI_AFFINITY, "a-1")),
        (anti_affinity(WEB, ZONE), pod(on="a-1", labels=WEB), out(ANTI_AFFINITY, "a-1", "a-2")),
        # A node without the key is in no domain: anti-affinity has nothing against it, affinity finds nobody there.
        (anti_affinity(WEB, ZONE), pod(on="bare", labels=WEB), {}),
        (pod_affinity(affinity_term(WEB, ZONE)), pod(on="bare", labels=WEB), out(AFFINITY, "a-1", "a-2", "b-1", "bare")),
        (pod_affinity(affinity_term(WEB, ZONE)), pod(on="a-1", labels=WEB), out(AFFINITY, "b-1", "bare")),
        (pod_affinity(affinity_term(WEB)), pod(on="gone", labels=WEB), out(AFFINITY, "a-1", "a-2", "b-1", "bare")),
        # One pod must match all terms.
        (
            pod_affinity(affinity_term(WEB, ZONE), affinity_term({"tier": "1"})),
            pod(on="a-1", labels={**WEB, "tier": "1"}),
            out(AFFINITY, "a-2", "b-1", "bare"),
        ),
        (
            pod_affinity(affinity_term(WEB, ZONE), affinity_term({"tier": "1"}, ZONE)),
            pod(on="a-1", labels=WEB),
            out(AFFINITY, "a-1", "a-2", "b-1", "bare"),
        ),
        # No selector selects nothing, an empty one everything.
        ({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST}]}}, pod(on="a-1"), {}),
        (anti_affinity({}), pod(on="a-1"), out(ANTI_AFFINITY, "a-1")),
        # Terminating pods count as long as they are there, finished ones do not.
        (anti_affinity(WEB), terminating(pod(on="a-1", labels=WEB)), out(ANTI_AFFINITY, "a-1")),
        (anti_affinity(WEB), pod(on="a-1", labels=WEB, status={"phase": "Succeeded"}), {}),
        (anti_affinity(WEB), pod(labels=WEB), {}),
        ({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, pod(on="a-1", labels=WEB), {}),
    ],
)
def test_terms_of_the_pod(own: Json, there: Pod, expected: dict[str, str]) -> None:
    assert rejected(feasibility_of(pod(affinity=own), NODES, [there])) == expected


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (anti_affinity(WEB), out(EXISTING, "a-1")),
        (anti_affinity(WEB, ZONE), out(EXISTING, "a-1", "a-2")),
        (anti_affinity({"app": "db"}), {}),
        (anti_affinity({}), out(EXISTING, "a-1")),
        (anti_affinity(WEB, "no-such-key"), {}),
        (anti_affinity(WEB, namespaces=["other"]), {}),
        (anti_affinity(WEB, namespaces=["shop", "other"]), out(EXISTING, "a-1")),
        (anti_affinity(WEB, namespaceSelector={}), out(EXISTING, "a-1")),
        (anti_affinity(WEB, namespaceSelector={"matchLabels": {"team": "x"}}), out(EXISTING, "a-1")),
        (anti_affinity(WEB, namespaceSelector={"matchLabels": {"team": "y"}}), {}),
        (anti_affinity(WEB, namespaceSelector={"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), {}),
        (anti_affinity(WEB, namespaces=["shop"], namespaceSelector={"matchLabels": {"team": "y"}}), out(EXISTING, "a-1")),
        # Affinity of pods that run asks nothing of others.
        (pod_affinity(affinity_term(WEB, ZONE)), {}),
    ],
)
def test_anti_affinity_of_pods_that_run(affinity: Json, expected: dict[str, str]) -> None:
    other = pod(on="a-1", namespace="shop", affinity=affinity)
    found = feasibility_of(pod(labels=WEB, namespace="shop"), NODES, [other], namespaces={"shop": {"team": "x"}})
    assert rejected(found) == expected


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, []),
        ({"namespaces": ["shop"]}, ["a-1"]),
        ({"namespaceSelector": {}}, ["a-1"]),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, ["a-1"]),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, []),
        # The scheduler also asks the selector about a namespace without labels.
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, ["a-1"]),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]}}, ["a-1"]),
    ],
)
def test_namespaces_of_the_pod_s_own_terms(scope: Json, expected: list[str]) -> None:
    there = pod(on="a-1", labels=WEB, namespace="shop")
    known = {"shop": {"team": "x"}, "default": {}}
    assert list(rejected(feasibility_of(pod(affinity=anti_affinity(WEB, **scope)), NODES, [there], namespaces=known))) == expected
    near = feasibility_of(pod(affinity=pod_affinity(affinity_term(WEB, **scope))), NODES, [there], namespaces=known)
    assert list(near.feasible) == expected


@pytest.mark.parametrize(
    ("labels", "term", "there", "feasible"),
    [
        (WEB, affinity_term(WEB, ZONE), [], ["a-1", "a-2", "b-1"]),
        ({"app": "db"}, affinity_term(WEB, ZONE), [], []),
        (WEB, affinity_term(WEB, ZONE), [("b-1", WEB)], ["b-1"]),
        # A matching pod on a node without the key is in no domain, so the group still has no first pod.
        (WEB, affinity_term(WEB, ZONE), [("bare", WEB)], ["a-1", "a-2", "b-1"]),
        (WEB, affinity_term(WEB, ZONE, namespaces=["other"]), [], []),
    ],
)
def test_the_first_pod_of_a_group_that_seeks_itself(labels: Json, term: Json, there: list[tuple[str, Json]], feasible: list[str]) -> None:
    found = feasibility_of(pod(labels=labels, affinity=pod_affinity(term)), NODES, [pod(on=name, labels=own) for name, own in there])
    assert list(found.feasible) == feasible
    assert not found.unknown_nodes


def test_affinity_is_named_before_anti_affinity_and_that_before_those_of_others() -> None:
    there = pod(on="a-1", labels=WEB, affinity=anti_affinity(WEB))
    apart = anti_affinity(WEB)
    both = {**apart, **pod_affinity(affinity_term({"app": "none"}))}
    assert rejected(feasibility_of(pod(labels=WEB, affinity=both), [A1], [there])) == out(AFFINITY, "a-1")
    assert rejected(feasibility_of(pod(labels=WEB, affinity=apart), [A1], [there])) == out(ANTI_AFFINITY, "a-1")
    assert rejected(feasibility_of(pod(labels=WEB), [A1], [there])) == out(EXISTING, "a-1")


BY_TEAM = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize(
    ("own", "labels", "there", "unknown", "out_of"),
    [
        # Anti-affinity, of others and of the pod.
        ({}, WEB, pod(on="a-1", namespace="shop", affinity=anti_affinity(WEB, ZONE, **BY_TEAM)), ["a-1", "a-2"], []),
        (anti_affinity(WEB, **BY_TEAM), {}, pod(on="a-1", namespace="shop", labels=WEB), ["a-1"], []),
        # Perhaps the pod there is one to be near to.
        (pod_affinity(affinity_term(WEB, **BY_TEAM)), {}, pod(on="a-1", namespace="shop", labels=WEB), ["a-1"], ["a-2", "b-1", "bare"]),
        # Perhaps it is, perhaps the pod is the first of its own group, which it may be anywhere.
        (
            pod_affinity(affinity_term(WEB, namespaces=["default"], **BY_TEAM)),
            WEB,
            pod(on="a-1", namespace="shop", labels=WEB),
            ["a-1", "a-2", "b-1", "bare"],
            [],
        ),
        # Perhaps the pod is none of those it seeks.
        (pod_affinity(affinity_term(WEB, **BY_TEAM)), WEB, pod(on="a-1"), ["a-1", "a-2", "b-1", "bare"], []),
        # What no label of the pod fits is no doubt, whatever its namespace.
        ({}, {"app": "db"}, pod(on="a-1", namespace="shop", affinity=anti_affinity(WEB, ZONE, **BY_TEAM)), [], []),
        ({}, WEB, pod(on="a-1", namespace="shop", affinity=anti_affinity(WEB, namespaceSelector={})), [], ["a-1"]),
    ],
)
def test_labels_of_a_namespace_that_could_not_be_read(own: Json, labels: Json, there: Pod, unknown: list[str], out_of: list[str]) -> None:
    found = feasibility_of(pod(labels=labels, affinity=own), NODES, [there])
    assert list(found.unknown_nodes) == unknown
    assert {reason.code for reasons in found.unknown_nodes.values() for reason in reasons} <= {"namespace_labels"}
    assert list(found.rejected) == out_of


def of_template(labels: Json, affinity: Json) -> Pod:
    manifest = {"metadata": {"labels": labels}, "spec": {"containers": [container()], "affinity": affinity}}
    return pod_of_template("default", decode_json(PodTemplate, encode_json(manifest)))


@pytest.mark.parametrize(
    ("keys", "closed"),
    [
        ({"matchLabelKeys": ["version"]}, ["b-1"]),
        ({"mismatchLabelKeys": ["version"]}, ["a-1"]),
        ({"matchLabelKeys": ["no-such-label"]}, ["a-1", "b-1"]),
        ({"matchLabelKeys": ["version"], "mismatchLabelKeys": ["track"]}, []),
        ({}, ["a-1", "b-1"]),
    ],
)
def test_label_keys_of_a_template_become_part_of_the_selector(keys: Json, closed: list[str]) -> None:
    there = [pod(on="a-1", labels={**WEB, "version": "1"}), pod(on="b-1", labels={**WEB, "version": "2", "track": "t"})]
    labels = {**WEB, "version": "2", "track": "t"}
    assert list(rejected(feasibility_of(of_template(labels, anti_affinity(WEB, **keys)), NODES, there))) == closed
    # Of a pod that exists they are part already, by the labels that it had when it was created.
    created = pod(labels=labels, affinity=anti_affinity({**WEB, "version": "1"}, **keys))
    assert list(rejected(feasibility_of(created, NODES, there))) == ["a-1"]


@pytest.mark.parametrize(("kind", "key"), [("Deployment", "pod-template-hash"), ("StatefulSet", "controller-revision-hash")])
def test_pods_of_a_new_revision_do_not_select_those_of_the_old_one(kind: str, key: str) -> None:
    template = {"metadata": {"labels": WEB}, "spec": {"containers": [container()], "affinity": anti_affinity(WEB, matchLabelKeys=[key])}}
    workload = decode_json(Workload, encode_json({"kind": kind, "metadata": {"namespace": "default"}, "spec": {"template": template}}))
    old = pod(on="a-1", labels={**WEB, key: "old"})
    new = pod_of_workload(workload)
    now = cluster_state(NODES, [old])
    assert rejected(find_feasible(new, now)) == {}
    now.assign(replace(new, metadata=replace(new.metadata, uid="new-1")), "b-1")
    assert rejected(find_feasible(new, now)) == out(ANTI_AFFINITY, "b-1")


# --- pods that move ---------------------------------------------------------------------------------------------------


def test_rules_go_where_pods_go() -> None:
    other = pod(on="a-1", labels=WEB, affinity=anti_affinity({"app": "db"}))
    now = cluster_state(NODES, [other, pod(on="bare", labels=WEB)])
    repelled, apart = pod(labels={"app": "db"}), pod(affinity=anti_affinity(WEB))
    near = pod(affinity=pod_affinity(affinity_term(WEB)))
    assert rejected(find_feasible(repelled, now)) == out(EXISTING, "a-1")
    assert rejected(find_feasible(apart, now)) == out(ANTI_AFFINITY, "a-1", "bare")
    fork = now.fork()
    fork.assign(other, "b-1")
    assert rejected(find_feasible(repelled, fork)) == out(EXISTING, "b-1")
    assert rejected(find_feasible(apart, fork)) == out(ANTI_AFFINITY, "b-1", "bare")
    assert find_feasible(near, fork).feasible == ("b-1", "bare")
    fork.remove(other)
    fork.remove(other)
    assert rejected(find_feasible(repelled, fork)) == {}
    assert find_feasible(near, fork).feasible == ("bare",)
    assert find_feasible(near, now).feasible == ("a-1", "bare")


def test_the_last_pod_of_a_group_that_leaves_makes_the_next_one_the_first() -> None:
    group = pod_affinity(affinity_term(WEB))
    last = pod(on="a-1", labels=WEB)
    now = cluster_state(NODES, [last])
    assert find_feasible(pod(labels=WEB, affinity=group), now).feasible == ("a-1",)
    now.remove(last)
    assert find_feasible(pod(labels=WEB, affinity=group), now).feasible == ("a-1", "a-2", "b-1", "bare")
