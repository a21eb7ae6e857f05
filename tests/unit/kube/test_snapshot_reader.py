# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Claims and storage are read only if the pods need them."""

from __future__ import annotations

import threading
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    NotFoundError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json

Json = dict[str, t.Any]

STORAGE = {"persistentvolumes", "storageclasses", "csinodes", "csidrivers", "csistoragecapacities"}
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
LIMITED = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}


class Api:
    """Lists what it was given; ``closed`` are (plural, namespace) that may not be read, ``absent`` plurals that the server lacks."""

    server_version = "v1.35.8"

    def __init__(self, objects: dict[str, list[Json]], closed: t.Any = (), absent: t.Any = ()) -> None:
        self._objects = {"namespaces": [{"metadata": {"name": name}} for name in ("app", "other")], **objects}
        self._closed = set(closed)
        self._absent = set(absent)
        self.listed: list[tuple[str, str]] = []

    def now_s(self) -> float:
        return 0.0

    def list_all(self, resource: Resource, *, namespace: str = "", label_selector: str = "", **_how: t.Any) -> list[t.Any]:
        self.listed.append((resource.plural, namespace))
        if (resource.plural, namespace) in self._closed:
            raise ForbiddenError(f"no list on {resource.plural}", status=403)
        if resource.plural in self._absent:
            raise NotFoundError(f"no {resource.plural}", status=404)
        found = [resource.decode(encode_json(item)) for item in self._objects.get(resource.plural, ())]
        return [item for item in found if namespace in ("", item.metadata.namespace)]

    @property
    def plurals(self) -> set[str]:
        return {plural for plural, _namespace in self.listed}


def workload(**spec: t.Any) -> Json:
    template = {"spec": {"volumes": spec.pop("volumes", []), "containers": spec.pop("containers", [])}}
    return {"metadata": {"name": "web", "namespace": "app"}, "spec": {"template": template, **spec}}


def read(api: Api, **options: t.Any) -> t.Any:
    return read_snapshot(t.cast(t.Any, api), **options)


@pytest.mark.parametrize(
    "objects",
    [
        {"deployments": [workload(volumes=CLAIM)]},
        {"statefulsets": [workload(volumeClaimTemplates=[{"metadata": {"name": "data"}}])]},
        {"deployments": [workload(volumes=[{"name": "scratch", "ephemeral": {}}])]},
    ],
)
def test_storage_is_read_where_a_workload_mounts_a_claim(objects: dict[str, list[Json]]) -> None:
    api = Api(objects)
    assert read(api).storage is not None
    assert api.plurals >= STORAGE | {"persistentvolumeclaims"}
    assert "volumeattachments" not in api.plurals


def test_claims_and_storage_are_not_read_where_no_workload_mounts_a_claim() -> None:
    pods = [
        {"metadata": {"name": "p"}, "spec": {"volumes": CLAIM}},
        {"metadata": {"name": "q"}, "spec": {"nodeName": "n", "volumes": CLAIM}},
    ]
    api = Api({"deployments": [workload(volumes=[{"name": "tmp", "emptyDir": {}}])], "pods": pods})
    assert read(api).storage is None
    assert not api.plurals & (STORAGE | {"persistentvolumeclaims"})
    assert read(api, pending_pods=True).storage is not None


def test_device_classes_are_read_where_an_extended_resource_is_asked_for() -> None:
    plain = Api({"deployments": [workload()]})
    assert read(plain).device_classes == ()
    assert "deviceclasses" not in plain.plurals
    gpu = {"deployments": [workload(containers=[{"name": "main", "resources": {"limits": {"example.com/gpu": "1"}}}])]}
    known = read(Api({**gpu, "deviceclasses": [{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}]}))
    assert [device_class.spec.extended_resource_name for device_class in known.device_classes] == ["example.com/gpu"]
    closed = read(Api(gpu, closed=[("deviceclasses", "")]))
    assert (closed.device_classes, [entry.resource for entry in closed.skipped]) == (None, ["deviceclasses"])
    assert read(Api(gpu, absent=["deviceclasses"])).device_classes == ()


def test_images_and_services_are_read_only_for_scores() -> None:
    image = {"names": ["a:1"], "sizeBytes": 5}
    service = {"metadata": {"name": "web", "namespace": "app"}, "spec": {"selector": {"app": "web"}}}
    objects = {"nodes": [{"metadata": {"name": "n"}, "status": {"images": [image]}}], "services": [service]}
    plain = Api(objects)
    assert read(plain).services_by_namespace is None
    assert "services" not in plain.plurals
    found = read(Api(objects), for_scores=True)
    assert [one.spec.selector for one in found.services_by_namespace["app"]] == [{"app": "web"}]
    assert [one.size_bytes for one in found.nodes["n"].status.images] == [5]
    closed = read(Api(objects, closed=[("services", ""), ("services", "other")]), for_scores=True)
    assert (closed.services_by_namespace, closed.skipped) == (None, ())


def test_forbidden_resources_are_reported_and_resources_that_the_server_lacks_are_empty() -> None:
    api = Api({"deployments": [workload(volumes=CLAIM)]}, closed=[("persistentvolumes", "")], absent=["csistoragecapacities"])
    snapshot = read(api)
    assert snapshot.storage.unreadable == {"persistentvolumes"}
    assert [(entry.resource, entry.namespace) for entry in snapshot.skipped] == [("persistentvolumes", "")]


def test_claims_of_all_namespaces_count_where_nodes_are_limited() -> None:
    objects = {"deployments": [workload(volumes=CLAIM)]}
    api = Api(objects)
    assert read(api, namespaces=["app"]).storage.claim_namespaces == {"app"}
    assert ("persistentvolumeclaims", "") not in api.listed
    limited = {**objects, "csinodes": [LIMITED]}
    api = Api(limited)
    assert read(api, namespaces=["app"]).storage.claim_namespaces is None
    assert "volumeattachments" in api.plurals
    closed = Api(limited, closed=[("persistentvolumeclaims", "")])
    assert read(closed, namespaces=["app"]).storage.claim_namespaces == {"app"}
    assert read(closed).storage.claim_namespaces == {"app", "other"}
    closed = Api(limited, closed=[("persistentvolumeclaims", ""), ("persistentvolumeclaims", "app")])
    assert read(closed, namespaces=["app"]).storage.claim_namespaces == frozenset()


def test_the_snapshot_knows_the_version_of_the_server() -> None:
    snapshot = read(Api({}))
    assert snapshot.is_before_kubernetes(36) and not snapshot.is_before_kubernetes(35)


class SlowPods(Api):
    """Lists pods only when the last of the other lists has been asked for."""

    last_asked: threading.Event

    def list_all(self, resource: Resource, **how: t.Any) -> list[t.Any]:
        if resource.plural == "pods":
            assert self.last_asked.wait(10), "the other lists wait for the pods"
        found = super().list_all(resource, **how)
        if resource.plural == "limitranges":
            self.last_asked.set()
        return found


def test_the_other_lists_do_not_wait_for_the_pods() -> None:
    api = SlowPods({"pods": [{"metadata": {"name": "p"}}]})
    api.last_asked = threading.Event()
    assert [pod.metadata.name for pod in read(api).pods] == ["p"]


def test_what_keeps_pods_from_being_read_is_raised() -> None:
    class Broken(Api):
        def list_all(self, resource: Resource, **how: t.Any) -> list[t.Any]:
            if resource.plural == "pods":
                raise UnreachableError("gone")
            return super().list_all(resource, **how)

    with pytest.raises(UnreachableError, match="gone"):
        read(Broken({}))


def test_forbidden_resources_are_reported_in_order() -> None:
    closed = {("namespaces", ""), ("pods", ""), ("pods", "other"), ("deployments", "app"), ("replicasets", "app")}

    class Named(Api):
        def get(self, resource: Resource, _namespace: str, name: str) -> t.Any:
            return resource.decode(encode_json({"metadata": {"name": name}}))

    skipped = read(Named({}, closed=closed), namespaces=["other", "app"]).skipped
    assert [(entry.namespace, entry.resource) for entry in skipped] == [
        ("", "pods"),
        ("app", "deployments"),
        ("app", "replicasets"),
        ("other", "pods"),
    ]
