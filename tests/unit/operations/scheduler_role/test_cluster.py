# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects that extended_scheduler reads before a change, and those that it deletes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.objects import Json, Reference, reference_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role import cluster as tested

SYSTEM, NAME = "kube-system", "kube-scheduling-scheduler"
SECRET = {"kind": "Secret", "name": "login", "key": "token"}
PROBE_LABELS = {"app.kubernetes.io/name": tested.PROBE, "app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
TEMPLATE = {"template": {"spec": {"schedulerName": "web"}}}
OWNED = {"metadata": {"ownerReferences": [{"controller": True, "kind": "Deployment", "name": "web"}]}}
COMPLETE = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}


def made(kind: str, name: str, version: str = "v1", namespace: str = SYSTEM, **more: t.Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": name}, **more}


class Api:
    """An API server with these objects. Objects and lists of the kinds in ``forbidden`` cannot be read."""

    def __init__(self, *items: Json, forbidden: t.Collection[str] = ()) -> None:
        self.items, self.forbidden = {reference_of(item): item for item in items}, forbidden

    def find(self, reference: Reference) -> Json | None:
        self._check(reference.kind)
        return self.items.get(reference)

    def list_plain(self, _version: str, kind: str, *, namespace: str, labels: str = "", fields: str = "") -> list[Json]:
        self._check(kind)
        waiting, scheduler = "spec.nodeName=,status.phase=Pending", ""
        if waiting in fields:
            assert labels == f"app.kubernetes.io/name!={tested.PROBE}"
            scheduler, labels = fields.removesuffix(f",{waiting}").removeprefix("spec.schedulerName="), ""
        wanted = dict(pair.split("=") for pair in labels.split(",") if "=" in pair).items()
        return [
            item
            for item in self.items.values()
            if item["kind"] == kind
            and namespace in ("", item["metadata"]["namespace"])
            and wanted <= item["metadata"].get("labels", {}).items()
            and scheduler in ("", item["spec"].get("schedulerName"))
        ]

    def list_all(self, _resource: t.Any, *, each: t.Callable[[Node], ObjectMeta]) -> list[ObjectMeta]:
        return [each(Node(ObjectMeta(name="a", labels={"x": ""}))), each(Node(ObjectMeta(name="b")))]

    def delete(self, reference: Reference, uid: str) -> None:
        assert uid == reference.name
        del self.items[reference]

    def _check(self, kind: str) -> None:
        if kind in self.forbidden:
            raise ForbiddenError(f"cannot list {kind}s: no (HTTP 403). Grant the verb 'list' on it to this user.", status=403)


def api(*items: Json, forbidden: t.Collection[str] = ()) -> t.Any:
    return Api(*items, forbidden=forbidden)


def pod(name: str, profile: str = "web", **more: t.Any) -> Json:
    return made("Pod", name, namespace="shop", spec={"schedulerName": profile, **more})


def test_the_names_and_the_labels_of_nodes_are_returned() -> None:
    assert tested.nodes_of(api()) == {"node_names": ["a", "b"], "node_labels": ["x"]}


@pytest.mark.parametrize(
    ("items", "forbidden", "missing"),
    [
        ([], (), [{**SECRET, "exists": False}]),
        ([made("Secret", "login", data=None)], (), [{**SECRET, "exists": True}]),
        ([made("Secret", "login", data={"token": "c2VjcmV0"})], (), []),
        ([made("Secret", "login", binaryData={"token": ""})], (), []),
        ([], ("Secret",), []),
    ],
)
def test_a_file_is_missing_if_its_object_or_its_key_does_not_exist(items: list[Json], forbidden: tuple[str, ...], missing: Json) -> None:
    assert tested.missing_files(api(*items, forbidden=forbidden), SYSTEM, [SECRET]) == missing


def test_a_mark_is_found_by_its_object() -> None:
    marks = [{"shape": name, "api_version": "v1", "kind": "ConfigMap", "namespace": SYSTEM, "name": name} for name in ("a", "b")]
    assert tested.marked_by(api(made("ConfigMap", "b")), marks) == [marks[1]]


def test_the_installed_profiles_are_those_of_the_mounted_configuration() -> None:
    volumes = [{"configMap": {"name": "mounted"}}, {"emptyDir": {}}]
    text = "profiles:\n- schedulerName: web\n- schedulerName: batch\n"
    other = made("ConfigMap", "other", data={"scheduler.yaml": "profiles: [{schedulerName: old}]"})
    deployment = made("Deployment", NAME, "apps/v1", spec={"template": {"spec": {"volumes": volumes}}})
    mounted = made("ConfigMap", "mounted", data={"scheduler.yaml": text, "extender-1.yaml": "{"})
    assert tested.installed_profiles(api(deployment, mounted, other), SYSTEM, NAME) == ["web", "batch"]
    assert tested.installed_profiles(api(deployment), SYSTEM, NAME) == []
    assert tested.installed_profiles(api(mounted), SYSTEM, NAME) == []


def test_only_the_shape_kubeadm_needs_the_pods_and_the_control_planes() -> None:
    scheduler = made("Pod", "kube-scheduler-a", spec={})
    scheduler["metadata"]["labels"] = {"component": "kube-scheduler"}
    leases = [made("Lease", name, "coordination.k8s.io/v1") for name in ("kube-scheduler", NAME)]
    found = api(scheduler, *leases, made("ConfigMap", "kubeadm-config"), made("Node", "a", namespace="", spec={}))
    names = [one["metadata"]["name"] for one in tested.host_objects(found, "kubeadm", NAME)]
    assert names == ["kubeadm-config", "kube-scheduler", "kube-scheduler-a", "a"]
    assert [one["metadata"]["name"] for one in tested.host_objects(found, "systemd", NAME)] == ["kubeadm-config", NAME]


def test_extenders_of_a_scheduler_on_hosts_are_those_on_control_planes() -> None:
    pods = [pod(f"on-{node}", nodeName=node) for node in ("cp-1", "worker-1")]
    for one in pods:
        one["metadata"]["labels"] = {"app.kubernetes.io/name": NAME}
    control_plane = made("Node", "cp-1", namespace="")
    assert tested.running_pods(api(*reversed(pods)), "shop", NAME, [control_plane], "kubeadm") == ["on-cp-1"]
    assert tested.running_pods(api(*pods), "shop", NAME, [], "second_scheduler") == ["on-cp-1"]


def test_pods_and_workloads_that_need_a_profile_are_named() -> None:
    template = {"template": {"spec": {"schedulerName": "batch"}}}
    items = [pod("one"), pod("other", "default-scheduler"), made("Job", "sum", "batch/v1", "shop", spec=template)]
    assert tested.users_in(api(*items), ["web", "batch"]) == ["Pod shop/one (web)", "Job shop/sum (batch)"]


def test_a_pod_that_ends_needs_no_profile() -> None:
    ending = pod("one")
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert tested.users_in(api(ending), ["web"]) == []


@pytest.mark.parametrize(
    ("kind", "spec", "more", "is_user"),
    [
        ("Deployment", TEMPLATE, {}, True),
        ("Deployment", {"replicas": 0, **TEMPLATE}, {}, True),
        ("Deployment", {"template": {"spec": {}}}, {}, False),
        ("ReplicaSet", TEMPLATE, OWNED, False),
        ("ReplicaSet", TEMPLATE, {}, True),
        ("Job", TEMPLATE, {}, True),
        ("Job", TEMPLATE, COMPLETE, False),
        ("CronJob", {"jobTemplate": {"spec": TEMPLATE}}, {}, True),
        ("ReplicationController", {}, {}, False),
    ],
)
def test_a_workload_needs_the_profile_if_its_new_pods_would_wait(kind: str, spec: Json, more: Json, is_user: bool) -> None:
    assert (tested.scheduler_of({"kind": kind, "metadata": {}, "spec": spec, **more}) == "web") == is_user


def test_kinds_of_workloads_that_cannot_be_read_are_named_together() -> None:
    with pytest.raises(ObjectsError) as error:
        tested.users_in(api(forbidden=("Job", "Deployment")), ["web"])
    reasons = "cannot list Deployments: no (HTTP 403); cannot list Jobs: no (HTTP 403)"
    remedy = "Grant the verb list, or set extended_scheduler_force: true"
    assert str(error.value) == f"It is not known whether a workload names web, which would be removed: {reasons}. {remedy}"


def test_pods_that_were_created_after_the_removal_of_their_profile_are_named() -> None:
    tested.check_late_pods(api(pod("one")), [])
    with pytest.raises(ObjectsError, match=r"^web is removed, and pods .* wait for it: Pod shop/one \(web\)\. Delete them, so that"):
        tested.check_late_pods(api(pod("one")), ["web"])


def test_what_the_programs_and_an_interrupted_run_have_made_is_deleted() -> None:
    left, others = pod("left"), [pod("one"), made("Lease", "kube-scheduler", "coordination.k8s.io/v1")]
    left["metadata"]["labels"] = PROBE_LABELS
    found = api(left, *others, made("Lease", "a", "coordination.k8s.io/v1"), made("ConfigMap", "b"))
    names = {"leases": ["a", "c"], "config_maps": ["b"], "probe_namespace": "shop"}
    deleted = ["Lease kube-system/a", "ConfigMap kube-system/b", "Pod shop/left"]
    assert tested.remove_state(found, SYSTEM, names, check_mode=True) == deleted and len(found.items) == 5
    assert tested.remove_state(found, SYSTEM, names, check_mode=False) == deleted and list(found.items.values()) == others
    assert tested.remove_state(found, SYSTEM, names, check_mode=False) == []
