# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of filter and prioritize are read in every form that Go would read, and answers have the keys that Go writes."""

from __future__ import annotations

import json
import tracemalloc
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_object
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.pod_requests import pod_requests
from ansible_collections.onprem.kube_scheduling.services.extender.http import wire
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import (
    BadRequestError,
    TooManyNodesError,
    filter_answer,
    read_nodes_request,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import body, names_body, pod

NODE = {"kind": "Node", "metadata": {"name": "a", "labels": {"x": "y"}}, "status": {"capacity": {"cpu": "4"}}}


def test_names_and_the_identity_of_the_pod() -> None:
    request = read_nodes_request(names_body(["a", "b"], uid="u7", scheduler="quiet"))
    assert (request.names, request.nodes) == (["a", "b"], None)
    assert (request.pod.namespace, request.pod.name, request.pod.uid, request.pod.scheduler_name) == ("app", "web", "u7", "quiet")


def test_whole_nodes() -> None:
    request = read_nodes_request(body(Pod=pod(), Nodes={"metadata": {}, "items": [NODE, {"metadata": {"name": "b"}}]}, NodeNames=None))
    assert request.names == ["a", "b"]
    assert request.nodes is not None and json.loads(bytes(request.nodes[0])) == NODE


@pytest.mark.parametrize("empty", [{"NodeNames": []}, {"Nodes": {"items": []}}, {"Nodes": {"items": None}}, {"Nodes": {}}])
def test_no_nodes(empty: dict[str, t.Any]) -> None:
    assert read_nodes_request(body(Pod=pod(), **empty)).names == []


@pytest.mark.parametrize(("keys", "complaint"), [(("pod", "NodeNames"), "no Pod"), (("Pod", "nodeNames"), "neither NodeNames nor Nodes")])
def test_keys_are_those_that_go_writes(keys: tuple[str, str], complaint: str) -> None:
    with pytest.raises(BadRequestError, match=complaint):
        read_nodes_request(body(**{keys[0]: pod(), keys[1]: ["a"]}))


def test_a_part_of_another_message_does_not_matter() -> None:
    assert read_nodes_request(body(Pod=pod(), NodeNames=["a"], NodeNameToMetaVictims="")).names == ["a"]


def test_a_null_in_the_pod_counts_as_absent() -> None:
    request = read_nodes_request(body(Pod={"metadata": {"name": "web", "namespace": None}, "spec": None}, NodeNames=["a"]))
    assert (request.pod.namespace, request.pod.scheduler_name, request.pod.key) == ("", "", "/web")


def test_the_demand_of_a_pod_follows_the_rule_of_the_scheduler() -> None:
    one = pod(cpu="250m")
    one["metadata"]["annotations"] = {"kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "much"}
    one["spec"]["initContainers"] = [{"name": "init", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}]
    view = read_nodes_request(body(Pod=one, NodeNames=[])).pod.view
    assert dict(view.demand.requests) == {"cpu": 1000, "memory": 1024 * 1024}
    assert (view.demand.ingress_bits_per_s, view.demand.egress_bits_per_s) == (10_000_000, None)
    assert view.labels == {"app": "web"}


QUANTITIES = st.sampled_from(["100m", "1", "2", "1500m", "64Mi", "1Gi", "0"])
RESOURCES = st.fixed_dictionaries(
    {}, optional={key: st.dictionaries(st.sampled_from(["cpu", "memory", "a.b/gpu"]), QUANTITIES) for key in ("requests", "limits")}
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab")}, optional={"resources": RESOURCES, "restartPolicy": st.sampled_from(["Always", "Never"])}
    ),
    max_size=3,
)


@settings(max_examples=50, deadline=None)
@given(
    spec=st.fixed_dictionaries(
        {"containers": CONTAINERS}, optional={"initContainers": CONTAINERS, "resources": RESOURCES, "overhead": st.just({"cpu": "10m"})}
    ),
    annotations=st.none() | st.dictionaries(st.sampled_from(["kubernetes.io/ingress-bandwidth", "checksum"]), st.just("5M")),
)
def test_the_demand_is_that_of_the_whole_pod(spec: dict[str, t.Any], annotations: dict[str, str] | None) -> None:
    one = {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}
    found = read_nodes_request(body(Pod=one, NodeNames=[])).pod.view.demand
    whole = decode_object(Pod, json.dumps(one).encode())
    assert found.requests == pod_requests(whole, from_status=False)
    assert found.ingress_bits_per_s == (5_000_000 if "kubernetes.io/ingress-bandwidth" in (annotations or {}) else None)
    # A null in a list can only be decoded in the slow way.
    slow = {**one, "spec": {**spec, "tolerations": None, "containers": [*spec["containers"], None]}}
    assert read_nodes_request(body(Pod=slow, NodeNames=[])).pod.view.demand == found


def test_pods_whose_resources_differ_have_different_demands() -> None:
    demands = [read_nodes_request(body(Pod=pod(cpu=cpu), NodeNames=[])).pod.view.demand.requests for cpu in ("1", "2", "1", "1000m", "")]
    assert demands == [{"cpu": 1000}, {"cpu": 2000}, {"cpu": 1000}, {"cpu": 1000}, {}]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "the body is not ExtenderArgs"),
        (b"{", "the body is not ExtenderArgs"),
        (b"[]", "the body is not ExtenderArgs"),
        (b"\xff\xfe", "the body is not"),
        (b"null", "the body is not ExtenderArgs"),
        (b"{}", "the body has no Pod"),
        (body(Pod=None, NodeNames=["a"]), "the body has no Pod"),
        (body(Pod=pod()), "neither NodeNames nor Nodes"),
        (body(Pod=pod(), NodeNames=None, Nodes=None), "neither NodeNames nor Nodes"),
        (body(Pod=[], NodeNames=["a"]), "the Pod cannot be read"),
        (body(Pod={"metadata": {"uid": 7}}, NodeNames=["a"]), "the Pod cannot be read"),
        (body(Pod=pod(), NodeNames="a"), "NodeNames"),
        (body(Pod=pod(), NodeNames=[None]), "NodeNames"),
        (body(Pod=pod(), Nodes={"items": [{}]}), "missing required field"),
        (names_body(["a"])[:-5], "truncated"),
        (b'{"Pod":' + b"[" * 100_000, "the body is not"),
        (b"[" + b" " * wire.LARGE_BODY, "the body is not ExtenderArgs"),
        (body(Pod=pod(), Nodes={"items": [{}]}), "the body is not ExtenderArgs"),
    ],
    ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_body_that_cannot_be_used_is_named(data: bytes, complaint: str) -> None:
    with pytest.raises(BadRequestError, match=complaint):
        read_nodes_request(data)


def test_a_filter_answer_for_names() -> None:
    answer = json.loads(filter_answer(["a"], None, {"b": 'too "busy"'}))
    assert answer == {"Nodes": None, "NodeNames": ["a"], "FailedNodes": {"b": 'too "busy"'}, "FailedAndUnresolvableNodes": {}, "Error": ""}


def test_a_filter_answer_has_whole_nodes_unchanged() -> None:
    request = read_nodes_request(body(Pod=pod(), Nodes={"items": [NODE]}))
    answer = json.loads(filter_answer(request.names, request.nodes, {}))
    assert answer["Nodes"] == {"items": [NODE]} and answer["NodeNames"] is None


def test_a_request_with_more_nodes_than_any_cluster_is_refused() -> None:
    assert len(read_nodes_request(names_body(["a", "b"]), 2).names) == 2
    with pytest.raises(TooManyNodesError, match="more than 2 nodes"):
        read_nodes_request(names_body(["a", "b", "c"]), 2)
    with pytest.raises(TooManyNodesError):
        read_nodes_request(body(Pod=pod(), Nodes={"items": [NODE] * 3}), 2)


def test_a_large_list_of_what_are_no_nodes_needs_no_memory() -> None:
    data = b'{"Pod": {}, "Nodes": {"items": [' + b"1," * 200_000 + b"1]}}"
    tracemalloc.start()
    with pytest.raises(BadRequestError, match=r"Nodes\.items\[0\]"):
        read_nodes_request(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data)


def test_the_demand_of_a_pod_that_no_api_server_stores_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    request = read_nodes_request(names_body(["a"]))
    monkeypatch.setattr(wire, "MOST_POD_BYTES", 10)
    with pytest.raises(BadRequestError, match="cannot be read: it has more than 10 bytes"):
        _view = request.pod.view


def test_the_names_of_a_large_body_are_counted_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGE_BODY", 0)
    with pytest.raises(TooManyNodesError):
        read_nodes_request(b'{"NodeNames": [1, 2, 3]}', 2)
    assert read_nodes_request(names_body(["a", "b"]), 2).names == ["a", "b"]
