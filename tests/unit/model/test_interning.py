# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Equal parts of pods are kept once, and each pod keeps its own values."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node, NodeWithImages
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.interning import Interner, binds_to_nodes

Json = dict[str, t.Any]


def sibling(number: int, *, metadata: Json | None = None, spec: Json | None = None, status: Json | None = None) -> Json:
    return {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "app",
            "uid": f"uid-{number}",
            "resourceVersion": f"{number}",
            "creationTimestamp": f"2026-01-01T00:00:0{number}Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "owner", "controller": True}],
        }
        | (metadata or {}),
        "spec": {
            "nodeName": f"node-{number}",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": f"token-{number}", "projected": {}}],
        }
        | (spec or {}),
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]} | (status or {}),
    }


OWN: list[Json] = [
    {},
    {"metadata": {"labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-2"}}},
    {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z", "deletionGracePeriodSeconds": 30}},
    {"metadata": {"annotations": {"ip": "10.0.0.2"}}},
    {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "other", "uid": "another"}]}},
    {"metadata": {"ownerReferences": None}},
    {"spec": {"priority": 7, "hostNetwork": True}},
    {"spec": {"nodeName": ""}},
    {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
    {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}},
    {"status": {"phase": "Failed", "reason": "Evicted"}},
    {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
]


@pytest.mark.parametrize("own", OWN)
def test_a_pod_stays_what_it_is(own: Json) -> None:
    items = [sibling(1), sibling(2, **own), sibling(3)]
    interner = Interner()
    for item in items:
        alone = Interner().intern_pod(decode_json(Pod, encode_json(item)))
        assert interner.intern_pod(decode_json(Pod, encode_json(item))) == alone


@pytest.mark.parametrize("own", OWN)
def test_what_is_equal_is_kept_once(own: Json) -> None:
    interner = Interner()
    first, second, third = (
        interner.intern_pod(decode_json(Pod, encode_json(item))) for item in (sibling(1), sibling(2, **own), sibling(3))
    )
    assert third.spec.containers is first.spec.containers and third.metadata.labels is first.metadata.labels
    assert third.status.conditions is first.status.conditions
    assert second.spec.tolerations is first.spec.tolerations
    assert second.metadata.namespace is first.metadata.namespace


def test_what_is_equal_in_the_pods_of_two_owners_is_kept_once() -> None:
    interner = Interner()
    owners = ([{"kind": "ReplicaSet", "name": name, "uid": name}] for name in ("first", "second"))
    pods = [interner.intern_pod(decode_json(Pod, encode_json(sibling(1, metadata={"ownerReferences": owner})))) for owner in owners]
    assert pods[0].spec.containers is pods[1].spec.containers
    assert pods[0].spec.node_name is pods[1].spec.node_name


@pytest.mark.parametrize(("generation", "kept"), [(2, True), (0, True), (1, False)])
def test_of_the_writers_of_a_pod_only_one_that_resized_it_is_kept(generation: int, kept: bool) -> None:
    entries = [{"manager": "kubelet", "subresource": "status"}, {"manager": "kubectl", "subresource": "resize"}, {"manager": "scaler"}]
    metadata = {"generation": generation, "managedFields": entries}
    interner = Interner()
    pods = [interner.intern_pod(decode_json(Pod, encode_json(sibling(number, metadata=metadata)))) for number in (1, 2)]
    plain = interner.intern_pod(
        decode_json(Pod, encode_json(sibling(3, metadata={"generation": generation, "managedFields": entries[:1]})))
    )
    assert [pod.resized for pod in pods] == [kept, kept] and not plain.resized
    assert all(len(pod.metadata.managed_fields or ()) == int(kept) for pod in pods) and plain.metadata.managed_fields is None


def test_writers_of_a_node_are_left_out_so_that_heartbeats_change_nothing() -> None:
    fields = [{"manager": "kubelet", "subresource": "status"}]
    values: list[Json] = [{"metadata": {"name": "a"}}, {"metadata": {"name": "a", "managedFields": fields}}]
    nodes = [decode_json(Node, encode_json(value)) for value in values]
    assert nodes[0] != nodes[1]
    shared = [Interner().intern_node(node) for node in nodes]
    assert shared[0] == shared[1]


def test_equal_images_of_nodes_are_kept_once_in_any_order() -> None:
    images = [{"names": ["a:1", "a@sha256:1"], "sizeBytes": 5}, {"names": ["b:1"], "sizeBytes": 7}]
    interner = Interner()
    values = [{"metadata": {"name": "n"}, "status": {"images": order}} for order in (images, images[::-1])]
    first, second = (interner.intern_node(decode_json(NodeWithImages, encode_json(value))) for value in values)
    assert isinstance(first, NodeWithImages) and isinstance(second, NodeWithImages)
    assert first.status.images is not None and second.status.images is not None
    assert [image.size_bytes for image in second.status.images] == [7, 5]
    assert first.status.images[0] is second.status.images[1]


def test_volume_with_the_content_of_an_image_is_kept_and_binds_the_pod_to_no_node() -> None:
    volumes = [{"name": "content", "image": {"reference": "a:1"}}, {"name": "token", "projected": {}}]
    pod = Interner().intern_pod(decode_json(Pod, encode_json({"metadata": {"name": "p"}, "spec": {"volumes": volumes}})))
    (kept,) = pod.spec.volumes or ()
    assert kept.image is not None and kept.image.reference == "a:1"
    assert not binds_to_nodes(kept)
