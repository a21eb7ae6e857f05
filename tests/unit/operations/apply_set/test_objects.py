# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pure parts of apply sets: what is compared and shown, which order objects have, and what keeps a namespace."""

from __future__ import annotations

from typing import Any, cast

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.apply_set import (
    availability,
    parts_of,
    unscheduled_texts,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.objects import (
    comparable,
    different_paths,
    is_member,
    keeps_namespace,
    mounted_config_maps,
    set_labels,
    shown,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.rights import (
    missing_rights,
    permission_objects,
)

Json = dict[str, Any]
NAME = "kube-scheduling-rescuer"
LABELS = set_labels(NAME, "rescuer")


def config_map(**more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "x"}, **more}


def test_what_the_api_server_writes_is_not_compared() -> None:
    item = config_map(data={"key": "1"})
    written = {
        **item,
        "status": {},
        "metadata": {**item["metadata"], "uid": "1", "resourceVersion": "2", "managedFields": [], "generation": 3},
    }
    assert comparable(written) == item


@pytest.mark.parametrize(
    ("one", "other", "paths"),
    [
        ({"a": {"b": 1, "c": [1, {"d": 2}]}}, {"a": {"b": 1, "c": [1, {"d": 3}]}}, ["a.c[1].d"]),
        ({"a": 1}, {"b": 1}, ["a", "b"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a"]),
        ({"a": 1}, {"a": 1}, []),
    ],
)
def test_fields_that_differ_are_named_by_their_path(one: Json, other: Json, paths: list[str]) -> None:
    assert list(different_paths(one, other)) == paths


def test_the_data_of_a_secret_are_not_shown() -> None:
    metadata = {"name": "x", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": "c2VjcmV0"}, "stringData": {"key": "secret"}}
    assert "c2VjcmV0" not in str(shown(secret)) and "secret'" not in str(shown(secret))
    assert metadata["annotations"] and shown(None) == {} and shown(config_map(data={"a": "b"}))["data"] == {"a": "b"}


@pytest.mark.parametrize("missing", ["app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"])
def test_an_object_without_one_of_the_labels_is_no_member(missing: str) -> None:
    assert is_member({"metadata": {"labels": LABELS}}, NAME)
    assert not is_member({"metadata": {"labels": {**LABELS, missing: "user"}}}, NAME)


def test_a_label_of_the_template_stays() -> None:
    item = config_map()
    item["metadata"]["labels"] = {"release": "monitoring"}
    given = {"name": NAME, "component": "rescuer", "namespace": "x", "create_namespace": False, "permissions": None}
    (labeled,) = parts_of({**given, "objects": {"settings": [item]}})["settings"]
    assert labeled["metadata"]["labels"] == {"release": "monitoring", **LABELS}


def test_config_maps_of_revisions_are_used() -> None:
    volumes = [{"name": "a", "configMap": {"name": "settings-1"}}, {"name": "b", "emptyDir": {}}]
    pods: list[Json] = [{"volumes": volumes}, {}]
    assert mounted_config_maps([{"spec": {"template": {"spec": pod}}} for pod in pods]) == ["settings-1"]


ENTRIES = [
    {"api_group": "", "resources": ["pods"], "verbs": ["list"], "why": "to read"},
    {"api_group": "apps", "resources": ["deployments"], "verbs": ["get"], "names": ["web"], "namespace": 123},
]


def test_rights_become_a_cluster_role_and_a_role_in_each_namespace() -> None:
    account, cluster_role, binding, role, role_binding = permission_objects(NAME, "x", ENTRIES, "")
    assert account["kind"] == "ServiceAccount" and account["automountServiceAccountToken"] is False
    assert cluster_role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "x"}]
    assert role["metadata"] == role_binding["metadata"] == {"name": NAME, "namespace": "123"}
    assert role["rules"] == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"], "resourceNames": ["web"]}]
    assert role_binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}


def test_the_rights_of_a_user_need_no_service_account() -> None:
    role, binding = permission_objects(NAME, "x", ENTRIES[1:], "rescuer")
    assert (role["kind"], binding["kind"]) == ("Role", "RoleBinding")
    assert binding["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rescuer"}]


class Nobody:
    """An API server that allows nothing, and the reviews that were asked."""

    def __init__(self) -> None:
        self.asked: list[Json] = []

    def is_allowed(self, asked: Json) -> bool:
        self.asked.append(asked)
        return False


def test_each_resource_verb_name_and_namespace_of_a_right_is_a_question() -> None:
    right = {"group": "", "resources": ["leases"], "verbs": ["get", "create"], "names": ["a", "b"], "namespaces": ["x", 1]}
    nowhere = [{"group": "", "resources": ["pods"], "verbs": ["list"], **more} for more in ({"asked": False}, {"namespaces": []})]
    api = Nobody()
    first, *_others = missing_rights(cast("Any", api), [right, *nowhere], ["create"])
    asked = [(one["namespace"], one["name"], one["verb"]) for one in api.asked]
    assert asked == [(n, name, "get") for n in ("x", "1") for name in ("a", "b")]
    assert first == "the user may not get leases named a in namespace x: grant the verb"
    apps = {"group": "apps", "resources": ["deployments", "daemonsets"], "verbs": ["list"]}
    assert list(missing_rights(cast("Any", api), [apps], [])) == [
        f"the user may not list {name}.apps: grant the verb" for name in apps["resources"]
    ]


def deployment(*, updated: int, available: int, generation: int = 2, observed: int = 2) -> Json:
    status = {"updatedReplicas": updated, "availableReplicas": available, "observedGeneration": observed}
    return {"metadata": {"generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("found", "replicas", "ready", "text"),
    [
        (deployment(updated=2, available=2), 2, True, ""),
        (deployment(updated=2, available=1), 2, True, "1 of 2 replicas are available"),
        (deployment(updated=2, available=0), 2, False, "0 of 2 replicas are available"),
        (deployment(updated=1, available=0), 1, False, "0 of 1 replicas are available"),
        (deployment(updated=1, available=2), 2, False, "1 of 2 replicas are updated"),
        (deployment(updated=2, available=2, observed=1), 2, False, "its controller has not read it yet"),
        (deployment(updated=0, available=0), 0, True, ""),
        ({"metadata": {"generation": 1}}, 1, False, "its controller has not read it yet"),
    ],
)
def test_one_replica_of_a_deployment_may_be_missing(found: Json, replicas: int, ready: bool, text: str) -> None:
    assert availability(found, replicas) == (ready, text)


def test_pods_without_a_node_are_grouped_by_the_reason() -> None:
    def pod(name: str, **condition: str) -> Json:
        return {"metadata": {"name": name}, "status": {"conditions": [{"type": "PodScheduled", "status": "False", **condition}]}}

    pods = [pod("a", message="0/2 nodes."), pod("b", message="0/2 nodes."), pod("c", reason="SchedulingGated"), {"metadata": {"name": "d"}}]
    assert unscheduled_texts(pods) == ["No node is found for a, b: 0/2 nodes.", "No node is found for c: SchedulingGated."]


@pytest.mark.parametrize(
    ("kind", "name", "labels", "keeps"),
    [
        ("ConfigMap", "kube-root-ca.crt", {}, False),
        ("ServiceAccount", "default", {}, False),
        ("Pod", "rescuer-1", LABELS, False),
        ("Pod", "of-a-user", {**LABELS, "app.kubernetes.io/name": "web"}, True),
        ("Deployment", "rebalancer", set_labels("kube-scheduling-rebalancer", "rebalancer"), True),
        ("Secret", "registry", LABELS, True),
        ("Pod", "of-a-user", {}, True),
    ],
)
def test_objects_of_others_and_data_keep_the_namespace(kind: str, name: str, labels: Json, keeps: bool) -> None:
    assert keeps_namespace({"kind": kind, "metadata": {"name": name, "labels": labels}}, ["rescuer"]) == keeps
