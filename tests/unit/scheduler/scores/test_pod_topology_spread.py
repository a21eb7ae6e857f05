# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores by spread constraints with ScheduleAnyway. The expected values are those of upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, TopologySpreadConstraint
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.service import Service
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings

from tests.unit.scheduler.scores.scored import plugin_scores, scores_of
from tests.unit.support.cluster import struct
from tests.unit.support.objects import Json, node, pod, running_json

SPREAD = "PodTopologySpread"
HOST = "kubernetes.io/hostname"
FOO = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
BAR = {"matchExpressions": [{"key": "bar", "operator": "Exists"}]}


def soft(max_skew: int, key: str, selector: Json | None = FOO, **more: object) -> Json:
    return {"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector, **more}


def hosts(names: str, **zones: str) -> list[object]:
    """Nodes with the label of the host, and of the zone if it is given."""
    return [node(name, labels={HOST: name, **({"zone": zones[name]} if name in zones else {})}) for name in names]


def there(counts: Json, *labels: str, **more: object) -> list[Pod]:
    """Pods with these labels: the number for each node."""
    return [pod(on=name, labels=dict.fromkeys(labels or ("foo",), ""), **more) for name, number in counts.items() for _one in range(number)]


UNLABELLED = node("b", labels={"n": "b"})
ZONES = {"a": "1", "b": "1", "x": "2", "y": "2"}


@pytest.mark.parametrize(
    ("constraints", "nodes", "pods", "feasible", "expected"),
    [
        ([soft(1, HOST)], hosts("abcd"), there({"a": 2, "b": 1, "d": 3}), "abcd", [20, 60, 100, 0]),
        ([soft(2, HOST)], hosts("abcd"), there({"a": 2, "b": 1, "d": 3}), "abcd", [33, 66, 100, 16]),
        ([soft(3, HOST)], hosts("abcd"), there({"a": 4, "b": 3, "c": 2, "d": 1}), "abcd", [44, 66, 77, 100]),
        ([soft(1, HOST)], hosts("abcd"), there({"a": 1, "b": 1, "c": 1, "d": 1}), "abcd", [100, 100, 100, 100]),
        ([soft(1, HOST)], hosts("abxy"), there({"a": 4, "b": 2, "x": 1, "y": 3}), "abx", [33, 83, 100]),
        # A node without the topology key gets nothing.
        ([soft(1, HOST)], [*hosts("axy"), UNLABELLED], there({"a": 4, "b": 2, "x": 1, "y": 3}), "abx", [16, 0, 100]),
        ([soft(1, "zone")], hosts("abxy", **ZONES), there({"a": 4, "b": 2, "x": 1, "y": 3}), "abx", [75, 75, 100]),
        ([soft(1, "zone"), soft(1, HOST)], hosts("abxy", **ZONES), there({"a": 2, "b": 1, "x": 2, "y": 4}), "ax", [100, 63]),
        ([soft(1, "zone"), soft(1, "zone", BAR)], hosts("abxy", **ZONES), [
            *there({"a": 1, "b": 1, "y": 1}, "foo", "bar"),
            *there({"a": 1, "y": 2}),
        ], "ax", [85, 100]),
        ([soft(1, "zone"), soft(1, HOST, BAR)], hosts("abxy", **ZONES), [
            *there({"a": 1, "y": 1}),
            *there({"b": 1}, "foo", "bar"),
            *there({"y": 1}, "bar"),
        ], "abxy", [60, 20, 100, 60]),
        ([soft(1, HOST)], hosts("ab"), [*there({"a": 1}, namespace="other"), *there({"a": 1, "b": 2})], "ab", [100, 33]),
        # A selector without requirements counts no pod, and neither does an absent one.
        ([soft(1, HOST, {})], hosts("ab"), there({"a": 2}), "ab", [100, 100]),
        ([soft(1, HOST, None)], hosts("ab"), there({"a": 2}), "ab", [100, 100]),
        ([soft(1, HOST, {"matchLabels": {}}, matchLabelKeys=["foo"])], hosts("ab"), there({"a": 2}), "ab", [0, 100]),
        ([{**soft(1, HOST), "whenUnsatisfiable": "DoNotSchedule"}], hosts("ab"), there({"a": 2}), "ab", []),
    ],
)  # fmt: skip
def test_score_is_lower_for_domains_with_more_selected_pods(
    constraints: list[Json], nodes: list[object], pods: list[Pod], feasible: str, expected: list[int]
) -> None:
    asked = pod(labels={"foo": "", "bar": ""}, topologySpreadConstraints=constraints)
    assert plugin_scores(SPREAD, asked, nodes, pods, feasible=list(feasible)) == expected


def test_terminating_pod_does_not_count() -> None:
    leaving = decode_json(
        Pod, encode_json(running_json("a", labels={"foo": ""}, namespace="default", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    )
    asked = pod(labels={"foo": ""}, topologySpreadConstraints=[soft(1, HOST)])
    assert plugin_scores(SPREAD, asked, hosts("ab"), [leaving, *there({"b": 1})]) == [100, 0]


@pytest.mark.parametrize(
    ("policies", "expected"),
    [({}, [75, 100]), ({"nodeAffinityPolicy": "Ignore"}, [50, 100]), ({"nodeTaintsPolicy": "Honor"}, [100, 33])],
)
def test_policies_decide_which_nodes_count_for_a_domain(policies: Json, expected: list[int]) -> None:
    labels = [("a", "1", "ssd"), ("b", "1", "hdd"), ("x", "2", "ssd")]
    nodes = [node(name, labels={HOST: name, "zone": zone, "disk": disk}) for name, zone, disk in labels]
    nodes.append(node("c", labels={HOST: "c", "zone": "1", "disk": "ssd"}, taints=[{"key": "k", "effect": "NoSchedule"}]))
    asked = pod(labels={"foo": ""}, nodeSelector={"disk": "ssd"}, topologySpreadConstraints=[soft(1, "zone", **policies)])
    pods = there({"a": 1, "b": 1, "c": 2, "x": 2})
    assert plugin_scores(SPREAD, asked, nodes, pods, feasible=["a", "x"]) == expected


# --- pods without constraints of their own ---


def owned(kind: str, name: str, *, on: str = "", labels: Json | None = None) -> Pod:
    return decode_json(
        Pod, encode_json(running_json(on, owner=name, kind=kind, labels=labels, namespace="default", phase="Running" if on else "Pending"))
    )


def workload(kind: str, name: str, selector: Json, *, namespace: str = "default") -> Workload:
    return struct(
        Workload,
        {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, "spec": {"selector": {"matchLabels": selector}}},
    )


def service(selector: Json | None) -> Service:
    return struct(Service, {"metadata": {"name": "service", "namespace": "default"}, "spec": {"selector": selector}})


ZONE = "topology.kubernetes.io/zone"
SPREAD_OUT = there({"a": 4, "b": 3, "c": 2, "d": 1})


def test_pods_of_a_service_count_for_the_constraints_of_kubernetes() -> None:
    asked = pod(labels={"foo": ""})
    assert plugin_scores(SPREAD, asked, hosts("abcd"), SPREAD_OUT, services=[service({"foo": ""})]) == [44, 66, 77, 100]
    assert plugin_scores(SPREAD, asked, hosts("abcd"), SPREAD_OUT, services=[service({"foo": "other"}), service(None)]) == []


def test_node_without_a_zone_is_scored_by_its_host() -> None:
    nodes = [node("a", labels={HOST: "a", ZONE: "1"}), node("b", labels={HOST: "b", ZONE: "1"}), node("c", labels={HOST: "c"})]
    found = plugin_scores(SPREAD, pod(labels={"foo": ""}), nodes, there({"a": 2, "c": 2}), services=[service({"foo": ""})])
    assert found == [41, 66, 100]
    listed = (TopologySpreadConstraint(1, HOST, "ScheduleAnyway"), TopologySpreadConstraint(1, ZONE, "ScheduleAnyway"))
    settings = ScoreSettings(default_constraints=listed)
    # Constraints of a profile need all keys.
    assert (
        plugin_scores(SPREAD, pod(labels={"foo": ""}), nodes, there({"a": 2}), services=[service({"foo": ""})], settings=settings)[2] == 0
    )


@pytest.mark.parametrize(
    ("labels", "services", "expected"),
    [
        ({"app": "web", "pod-template-hash": "1"}, None, [0, 100]),
        ({"app": "web", "pod-template-hash": "1"}, [service({"app": "web"})], [0, 100]),
        # The Service selects no pod of an older revision, and this one has none.
        ({"app": "web", "pod-template-hash": "2"}, [service({"app": "web"})], [100, 100]),
    ],
)
def test_pods_of_the_same_replica_set_count(labels: Json, services: list[Service] | None, expected: list[int]) -> None:
    there_already = [owned("ReplicaSet", "web", on="a", labels={"app": "web", "pod-template-hash": "1"}) for _number in range(2)]
    found = plugin_scores(
        SPREAD, owned("ReplicaSet", "web", labels=labels), hosts("ab"), there_already, services=services, settings=EQUAL_SKEW
    )
    assert found == expected


EQUAL_SKEW = ScoreSettings(default_constraints=(TopologySpreadConstraint(1, HOST, "ScheduleAnyway"),))


def stateful(number: int, on: str = "") -> Pod:
    return owned("StatefulSet", "db", on=on, labels={"app": "db", "statefulset.kubernetes.io/pod-name": f"db-{number}"})


def test_service_of_a_single_replica_makes_the_constraints_count_no_other_replica() -> None:
    sets = [workload("StatefulSet", "db", {"app": "db"})]
    more = {"stateful_sets": sets, "settings": EQUAL_SKEW}
    pods = [stateful(0, "a"), stateful(1, "a")]
    assert plugin_scores(SPREAD, stateful(2), hosts("ab"), pods, services=[], **more) == [0, 100]
    single = service({"statefulset.kubernetes.io/pod-name": "db-2"})
    assert plugin_scores(SPREAD, stateful(2), hosts("ab"), pods, services=[single], **more) == [100, 100]


@pytest.mark.parametrize(
    ("asked", "more", "codes"),
    [
        (stateful(2), {"stateful_sets": [workload("StatefulSet", "db", {"app": "db"})]}, ["default_constraints"]),
        (stateful(2), {"services": []}, ["default_constraints"]),
        (
            stateful(2),
            {"stateful_sets": [workload("StatefulSet", "db", {"app": "db"}, namespace="other")], "services": []},
            ["default_constraints"],
        ),
        (pod(labels={"foo": ""}), {}, ["default_constraints"]),
        (pod(), {}, []),
        (pod(labels={"foo": ""}), {"services": []}, []),
        (pod(labels={"foo": ""}, topologySpreadConstraints=[soft(1, HOST)]), {}, []),
        (pod(labels={"foo": ""}), {"settings": ScoreSettings(default_constraints=())}, []),
    ],
)
def test_scores_are_unknown_if_a_service_that_was_not_read_could_change_them(asked: Pod, more: Json, codes: list[str]) -> None:
    found = scores_of(asked, hosts("ab"), [stateful(0, "a"), stateful(1, "b")], **more)
    assert [reason.code for reason in found.unknown] == codes
    assert bool(found.totals) is not bool(codes)
    assert (SPREAD in found.by_plugin) <= (not codes)
