# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Null counts as absent, and of an object that cannot be decoded all that can be read is kept."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import resources
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ResponseDecodeError, UndecodableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import Labels, LabelSelector, ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import DecodeError, decode_watch_event, force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.interning import Interner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.json_parts import elements, members, without_deep_parts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import (
    Undecodable,
    UndecodablePod,
    undecodable_of,
    undecodable_results,
)

from tests.unit.support.cluster import snapshot_of

Json = dict[str, t.Any]


def dumped(value: t.Any) -> bytes:
    return json.dumps(value).encode()


def named(name: str, **fields: t.Any) -> Json:
    return {"metadata": {"name": name, "namespace": "app", "uid": f"u-{name}", "resourceVersion": "7"}, **fields}


def read(resource: resources.Resource, value: Json | bytes) -> Undecodable:
    found = undecodable_of(resource.read(value if isinstance(value, bytes) else dumped(value)))
    assert found is not None
    return found


def test_null_list_in_a_required_place_counts_as_absent() -> None:
    job = resources.JOBS.decode(dumped(named("j", spec={"podFailurePolicy": {"rules": None}})))
    assert job.spec.pod_failure_policy.rules == () and not job.ignores_disruptions


def test_null_creation_time_of_a_template_counts_as_absent() -> None:
    """Servers up to 1.33 write it, in every workload."""
    spec = {"replicas": None, "template": {"metadata": {"creationTimestamp": None, "labels": {"app": "web"}}, "spec": None}}
    workload = resources.DEPLOYMENTS.decode(dumped(named("web", spec=spec)))
    assert (workload.spec.replicas, workload.spec.template.metadata.labels) == (1, {"app": "web"})


def test_page_with_one_undecodable_object_keeps_the_others_in_order() -> None:
    page = {"items": [named("a"), named("b", spec={"unschedulable": "yes"}), named("c", status=None)]}
    found = resources.NODES.decode_items(dumped(page))
    assert [item.metadata.name for item in found] == ["a", "b", "c"]
    assert [isinstance(item, Undecodable) for item in found] == [False, True, False]


def test_page_with_one_object_that_is_no_json_keeps_the_others() -> None:
    parts = [dumped(named("a")), b'{"metadata":{"name":"b"},"spec":tru3}', dumped(named("c"))]
    found = resources.NODES.decode_items(b'{"kind":"NodeList","metadata":{},"items":[' + b",".join(parts) + b"]}")
    assert [item.metadata.name for item in found] == ["a", "b", "c"]
    assert undecodable_of(found[1]) is not None


@pytest.mark.parametrize("page", [b"", b"[]", b"<html>", b'{"items":{}}', b'{"items":[{]}', b'{"items":[', b'{"items":5}'])
def test_page_that_is_no_list_is_refused_as_a_whole(page: bytes) -> None:
    with pytest.raises(ResponseDecodeError):
        resources.NODES.decode_items(page)


def test_deeply_nested_managed_fields_are_passed_over() -> None:
    """A client may send them 10,000 levels deep, and a Python interpreter reads less."""
    deep = b'{"f:a":' * 30_000 + b"{}" + b"}" * 30_000
    pod = b'{"metadata":{"name":"a","uid":"u","managedFields":[{"fieldsV1":' + deep + b'}]},"spec":{"nodeName":"n"}}'
    assert undecodable_of(resources.PODS.read(pod)) is None
    (found,) = resources.PODS.decode_items(b'{"items":[' + pod + b"]}")
    assert (found.spec.node_name, found.metadata.uid) == ("n", "u")


@pytest.mark.parametrize("value", [5, [], {}, None, True])
def test_managers_of_a_workload_are_read_and_no_value_of_them_makes_it_undecodable(value: t.Any) -> None:
    entries = [{"manager": value}, {"subresource": value}, {"manager": "kustomize-controller", "fieldsV1": {"f:spec": {}}}]
    (workload,) = resources.DEPLOYMENTS.decode_items(dumped({"items": [{"metadata": {"name": "web", "managedFields": entries}}]}))
    assert undecodable_of(workload) is None
    assert [entry.manager for entry in workload.metadata.managed_fields][-1] == "kustomize-controller"


def test_managers_of_a_pod_are_not_read() -> None:
    entries = [{"manager": "kubelet", "subresource": "resize"}]
    (pod,) = resources.PODS.decode_items(dumped({"items": [{"metadata": {"name": "web-1", "managedFields": entries}}]}))
    (entry,) = pod.metadata.managed_fields
    assert entry.subresource == "resize" and not hasattr(entry, "manager")


@pytest.mark.parametrize(
    ("item", "decodable"),
    [
        pytest.param(b'{"metadata":{"uid":"u","x":' + b"[" * 30_000 + b"]" * 30_000 + b"}}", True, id="nested too deep"),
        pytest.param(b'{"metadata":{"uid":"u"},"spec":tru3}', False, id="no JSON"),
    ],
)
def test_an_odd_object_ends_no_watch(item: bytes, decodable: bool) -> None:
    event = decode_watch_event(b'{"type":"MODIFIED","object":' + item + b"}")
    found = resources.PODS.read(bytes(event.object))
    assert (event.type, found.metadata.uid, undecodable_of(found) is None) == ("MODIFIED", "u", decodable)


@pytest.mark.parametrize("line", [b"", b"[]", b"<html>", b'{"type":"A"', b'{"type":"A"}', b'{"type":5,"object":{}}', b'{"object":{}}'])
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_watch_event(line)


def test_undecodable_pod_keeps_node_owner_phase_and_labels() -> None:
    owners = [{"kind": "ReplicaSet", "name": "rs", "uid": "rs-1", "controller": True}]
    value = named("p", spec={"nodeName": "worker-1", "containers": 5}, status={"phase": "Running"})
    value["metadata"].update(labels={"app": "web", "odd": 5}, ownerReferences=owners)
    pod = resources.PODS.read(dumped(value))
    assert isinstance(pod, UndecodablePod)
    assert (pod.spec.node_name, pod.status.phase, pod.metadata.labels) == ("worker-1", "Running", {"app": "web"})
    assert pod.metadata.controller is not None and pod.metadata.controller.uid == "rs-1"
    assert pod.undecodable.name == "Pod app/p" and "labels" in pod.undecodable.message


@pytest.mark.parametrize(
    ("spec", "node_name"),
    [
        ({"nodeName": "n", "containers": 5}, "n"),
        ({"containers": 5}, ""),
        ({"nodeName": None, "containers": 5}, ""),
        ({"nodeName": 5}, None),
    ],
)
def test_node_of_an_undecodable_pod_is_known_absent_or_unreadable(spec: Json, node_name: str | None) -> None:
    assert read(resources.PODS, named("p", spec=spec)).node_name == node_name


def test_spec_of_another_type_leaves_the_node_of_a_pod_unknown() -> None:
    assert read(resources.PODS, named("p", spec="text")).node_name is None


@pytest.mark.parametrize(
    ("metadata", "uid_known"),
    [({"name": "n", "uid": 5}, False), ({"name": 5, "uid": "u"}, True), (5, False), (None, False), ({"labels": []}, False)],
)
def test_object_with_unreadable_metadata_is_still_an_object_of_its_own(metadata: t.Any, uid_known: bool) -> None:
    found = read(resources.JOBS, {"metadata": metadata})
    assert found.identified == uid_known
    assert found.metadata.uid or found.metadata.name
    other = read(resources.JOBS, {"metadata": metadata, "spec": {}})
    assert found.metadata.name or uid_known or found.metadata.uid != other.metadata.uid


@pytest.mark.parametrize("data", [b"", b"null", b"5", b"[]", b'"x"', b"{", b'{"metadata":{"name":"x"', b"\xff\xfe", b'{"metadata":[[[['])
def test_text_that_is_no_object_never_raises(data: bytes) -> None:
    for resource in (resources.PODS, resources.BUDGETS, resources.DEPLOYMENTS):
        assert read(resource, data).message


def budget_with(**spec: t.Any) -> Undecodable:
    return read(resources.BUDGETS, named("b", spec=spec, status={"desiredHealthy": "2"}))


@pytest.mark.parametrize(
    ("spec", "labels", "selected"),
    [
        ({"selector": {"matchLabels": {"app": "web"}}}, {"app": "web"}, True),
        ({"selector": {"matchLabels": {"app": "web"}}}, {"app": "db"}, False),
        ({"selector": {"matchLabels": 5}}, {"app": "db"}, True),
        ({"selector": "web"}, {}, True),
        ({"selector": {}}, {}, True),
        ({}, {"app": "web"}, False),
    ],
    ids=["selects", "does not select", "unreadable labels", "no selector object", "everything", "nothing"],
)
def test_selector_of_an_undecodable_budget_counts_where_it_can_be_read(spec: Json, labels: Labels, selected: bool) -> None:
    snapshot = snapshot_of(undecodable=[budget_with(**spec)])
    assert (snapshot.undecodable_budget(pod_in("app", labels)) is not None) == selected
    assert snapshot.undecodable_budget(pod_in("other", labels)) is None


def pod_in(namespace: str, labels: Labels) -> Pod:
    return Pod(metadata=ObjectMeta(namespace=namespace, labels=labels))


def test_budget_whose_namespace_cannot_be_read_may_select_pods_of_every_namespace() -> None:
    found = read(resources.BUDGETS, {"metadata": {"name": "b", "namespace": 5}, "spec": {"selector": {}}})
    assert snapshot_of(undecodable=[found]).undecodable_budget(pod_in("anywhere", {})) is found
    assert found.selector == LabelSelector()


@pytest.mark.parametrize(
    ("owners", "uid", "belongs"),
    [
        ([{"uid": "d", "controller": True}], "d", True),
        ([{"uid": "d", "controller": True}], "e", False),
        ([{"uid": "d"}], "d", False),
        (None, "d", False),
        ("text", "d", True),
        ([{"uid": 5, "controller": True}], "d", True),
    ],
)
def test_owner_of_an_undecodable_object_is_known_or_may_be_any(owners: t.Any, uid: str, belongs: bool) -> None:
    value = named("rs", spec={"replicas": "x"})
    value["metadata"]["ownerReferences"] = owners
    found = read(resources.REPLICA_SETS, value)
    deployment = Workload(metadata=ObjectMeta(namespace="app", name="web", uid=uid))
    force_setattr(deployment, "kind", "Deployment")
    assert (snapshot_of(undecodable=[found]).undecodable_revision(deployment) is found) == belongs


@pytest.mark.parametrize(
    ("namespace", "name", "found"),
    [("app", "a", True), ("app", "b", False), ("other", "a", False), ("", "a", True), ("app", "", True), ("", "", True)],
)
def test_an_object_whose_place_cannot_be_read_may_be_any(namespace: str, name: str, found: bool) -> None:
    one = Undecodable(kind="ResourceQuota", metadata=ObjectMeta(namespace=namespace, name=name))
    snapshot = snapshot_of(undecodable=[one])
    assert (snapshot.undecodable_named("ResourceQuota", "app", "a") is one) == found
    assert (snapshot.undecodable_in("app", "LimitRange", "ResourceQuota") is one) == (namespace in ("app", ""))
    assert snapshot.undecodable_named("LimitRange", "app", "a") is None and snapshot.undecodable_in("app", "LimitRange") is None


def test_decoding_one_undecodable_object_raises_an_error_that_names_it() -> None:
    with pytest.raises(UndecodableError, match=r"Lease app/l cannot be decoded: .*renewTime"):
        resources.LEASES.decode(dumped(named("l", spec={"renewTime": 5})))


def test_answer_to_a_write_that_cannot_be_decoded_is_no_error() -> None:
    """The write was done: an error would have it repeated."""
    found = resources.DEPLOYMENTS.decode_written(dumped(named("web", spec={"replicas": "x"})))
    assert (found.kind, found.metadata.name, found.metadata.resource_version) == ("Deployment", "web", "7")


def test_rows_name_each_object_once() -> None:
    found = read(resources.BUDGETS, named("b", spec={"selector": 5}))
    node = read(resources.NODES, {"metadata": {"name": "n", "uid": "u"}, "spec": 5})
    rows = undecodable_results([node, found, found])
    assert [(row["kind"], row["namespace"], row["name"], row["reason"]) for row in rows] == [
        ("Node", "", "n", "undecodable"),
        ("PodDisruptionBudget", "app", "b", "undecodable"),
    ]
    assert all(row["message"] for row in rows)


@pytest.mark.parametrize(
    ("resource", "fields"),
    [
        (resources.DEPLOYMENTS, {"spec": {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "5 apples"}}}]}}}}),
        (resources.STATEFUL_SETS, {"spec": {"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": ""}}}}]}}),
        (resources.QUOTAS, {"status": {"used": {"cpu": "9" * 5000}}}),
        (resources.LIMIT_RANGES, {"spec": {"limits": [{"default": {"cpu": "x"}}]}}),
        (resources.CLAIMS, {"spec": {"resources": {"requests": {"storage": "1GiB"}}}}),
        (resources.VOLUMES, {"spec": {"capacity": {"storage": "-"}}}),
        (resources.CSI_CAPACITIES, {"capacity": "x"}),
        (resources.CSI_CAPACITIES, {"maximumVolumeSize": "x"}),
    ],
    ids=lambda value: value.kind if isinstance(value, resources.Resource) else "",
)
def test_object_with_a_quantity_that_cannot_be_read_is_undecodable(resource: resources.Resource, fields: Json) -> None:
    found = read(resource, named("a", **fields))
    assert found.name == f"{resource.kind} app/a" and "is not a Kubernetes quantity" in found.message


@pytest.mark.parametrize("amount", ["5 apples", "9" * 5000, ""])
def test_pod_with_a_request_that_cannot_be_read_is_undecodable_each_time(amount: str) -> None:
    interner = Interner()
    spec = {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": amount}}}]}
    for name in ("a", "b"):
        pod = interner.intern_pod(resources.PODS.read(dumped(named(name, spec=spec))))
        assert isinstance(pod, UndecodablePod) and (pod.metadata.name, pod.spec.node_name) == (name, "n")
    good = interner.intern_pod(resources.PODS.read(dumped(named("c", spec={"containers": [{"resources": {"requests": {"cpu": "1"}}}]}))))
    assert not isinstance(good, UndecodablePod)


def test_node_with_an_amount_that_cannot_be_read_is_undecodable() -> None:
    node = Interner().intern_node(resources.NODES.read(dumped({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "many"}}})))
    assert isinstance(node, Undecodable) and node.name == "Node n"


def test_parts_are_split_by_brackets_and_strings_alone() -> None:
    text = rb'{"a":"}\",{","b":[1,{"c":","}],"d":tru3, "e" : {} }'
    assert members(text) == {"a": rb'"}\",{"', "b": b'[1,{"c":","}]', "d": b"tru3", "e": b"{}"}
    assert elements(b'[ {"a":[1]} ,2,"[" ]') == [b'{"a":[1]}', b"2", b'"["']
    assert members(b"[]") is None and elements(b"{}") is None and members(b'{"a":1') is None
    assert members(b"{}") == {} and elements(b"[]") == []


def test_only_what_is_nested_too_deep_is_left_out() -> None:
    shallow = b'{"a":[[["x"]]],"b":"[[["}'
    assert without_deep_parts(shallow) == shallow
    cut = without_deep_parts(b'{"a":' + b"[" * 500 + b"]" * 500 + b',"b":1}')
    assert cut.endswith(b',"b":1}') and json.loads(cut)["b"] == 1
