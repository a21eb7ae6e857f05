# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""k8s_apply_set against a real API server: applied, repeated, pruned, checked, verified and deleted, beside objects of others."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import IMAGE

MODULE = "k8s_apply_set"
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SECRET = "dmVyeS1zZWNyZXQ="
GROUP = "tests.example.org"
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        # Two versions of one kind have the same objects.
        "versions": [
            {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}
            for name in ("v1", "v1beta1")
        ],
    },
}
BROKEN = f"broken.{GROUP}"
AGGREGATED = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": f"v1.{BROKEN}"},
    "spec": {
        "group": BROKEN,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": {"name": "no-such-service", "namespace": "default"},
    },
}
_NUMBERS = itertools.count(1)

Json = dict[str, Any]


@pytest.fixture
def place(cluster: Cluster) -> Iterator[str]:
    """The name of a namespace that does not exist. What a test has applied is deleted after it."""
    name = f"set-{next(_NUMBERS)}"
    yield name
    cluster.kubectl("delete", "clusterroles,clusterrolebindings", "--selector", f"app.kubernetes.io/name={program(name)}")
    for kind in ("roles", "rolebindings"):
        cluster.kubectl("delete", kind, "--all-namespaces", "--selector", f"app.kubernetes.io/name={program(name)}")
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found")


def program(place: str) -> str:
    """Return the name of the set of a test."""
    return f"kube-scheduling-{place}"


def config_map(place: str, name: str = "", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name or program(place), "namespace": place}, "data": data}


def deployment(place: str, *, replicas: int = 2, cpu: str = "1m") -> Json:
    labels = {"app.kubernetes.io/name": program(place)}
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu}}, "securityContext": RESTRICTED}],
        },
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": program(place), "namespace": place}, "spec": spec}


PERMISSIONS = [
    {"api_group": "", "resources": ["nodes"], "verbs": ["list"]},
    {"api_group": "", "resources": ["events"], "verbs": ["create"], "namespace": "default"},
]


def options(place: str, *items: Json, **more: Any) -> Json:
    """Return the options of a set with these objects."""
    given = {"name": program(place), "component": place, "namespace": place, "create_namespace": True}
    kinds = ["v1/ConfigMap", "v1/Secret", "apps/v1/Deployment", "monitoring.example.org/v1/Unknown"]
    return {**given, "objects": {"all": list(items)}, "kinds": kinds, "wait_timeout": 60, **more}


def problems(result: dict[str, Any]) -> list[str]:
    """Return the sentences of a check or a verification, which has failed if there is one."""
    lines: list[str] = result["msg"].splitlines() if result.get("failed") else []
    return lines


def changes(result: Json) -> dict[str, str]:
    """Return the change of each object by its kind."""
    assert not result.get("failed"), result
    return {row["kind"]: row["change"] for row in result["objects"]}


def test_a_set_is_planned_applied_repeated_pruned_and_deleted(cluster: Cluster, modules: Modules, place: str) -> None:
    given = options(place, config_map(place, key="1"), deployment(place), permissions=PERMISSIONS)
    names = ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Deployment"]
    planned = modules.run(MODULE, check_mode=True, diff=True, **given)
    assert changes(planned) == dict.fromkeys(names, "created") and planned["changed"]
    assert f"ConfigMap {place}/{program(place)}" in planned["remarks"][0] and planned["remarks"][0].startswith("Would be created: ")
    assert place not in [item["metadata"]["name"] for item in cluster.get("/api/v1/namespaces")["items"]]

    first = modules.run(MODULE, **given)
    assert changes(first) == dict.fromkeys(names, "created") and list(changes(first)) == names
    path = f"/apis/apps/v1/namespaces/{place}/deployments/{program(place)}"
    assert cluster.get(path)["status"]["availableReplicas"] >= 1
    again = modules.run(MODULE, diff=True, **given)
    assert set(changes(again).values()) == {"unchanged"} and not again["changed"] and again["diff"] == [], again

    # A label of a user stays, an object that is not listed any more goes, also in a namespace that the settings do not have any more.
    cluster.kubectl("--namespace", place, "label", "configmap", program(place), "by=user")
    fewer = options(place, config_map(place, key="2"), permissions=PERMISSIONS[:1])
    changed = modules.run(MODULE, diff=True, **fewer)
    row = changes(changed)
    assert (row["ConfigMap"], row["Deployment"], row["Role"], row["RoleBinding"]) == ("changed", "deleted", "deleted", "deleted")
    assert row["Namespace"] == row["ClusterRole"] == "unchanged"
    (before,) = [one for one in changed["diff"] if one["before_header"].startswith("ConfigMap")]
    assert (before["before"]["data"], before["after"]["data"]) == ({"key": "1"}, {"key": "2"})
    found = cluster.get(f"/api/v1/namespaces/{place}/configmaps/{program(place)}")
    assert found["metadata"]["labels"]["by"] == "user" and found["metadata"]["labels"]["app.kubernetes.io/component"] == place

    gone = modules.run(MODULE, check_mode=True, state="absent", **fewer)
    assert set(changes(gone).values()) == {"deleted"} and "Namespace" in changes(gone)
    assert f"Namespace {place}" in gone["remarks"][0]
    removed = modules.run(MODULE, state="absent", **fewer)
    # A program ends before its rights do, and the namespace is the last.
    assert list(changes(removed)) == ["ConfigMap", "ClusterRoleBinding", "ClusterRole", "ServiceAccount", "Namespace"]
    nothing = modules.run(MODULE, state="absent", **fewer)
    assert nothing["objects"] == [] and not nothing["changed"]


def test_objects_of_the_role_of_an_earlier_version_are_taken_over_and_pruned(cluster: Cluster, modules: Modules, place: str) -> None:
    """They have the same labels, names and field manager, and no other mark."""
    labels = {
        "app.kubernetes.io/name": program(place),
        "app.kubernetes.io/component": place,
        "app.kubernetes.io/part-of": "kube-scheduling",
        "app.kubernetes.io/managed-by": "onprem.kube_scheduling",
    }
    cluster.kubectl("create", "namespace", place)
    cluster.kubectl("label", "namespace", place, "app.kubernetes.io/managed-by=onprem.kube_scheduling")
    for item in (config_map(place, key="1", old="1"), deployment(place, replicas=0)):
        item["metadata"]["labels"] = labels
        cluster.kubectl("apply", "--server-side", "--field-manager", "kube-scheduling", "--filename=-", input=json.dumps(item))
    result = modules.run(MODULE, **options(place, config_map(place, key="1")))
    assert changes(result) == {"Namespace": "changed", "ConfigMap": "changed", "Deployment": "deleted"}
    assert cluster.get(f"/api/v1/namespaces/{place}/configmaps/{program(place)}")["data"] == {"key": "1"}


def test_an_object_of_others_is_neither_replaced_nor_deleted_and_is_named(cluster: Cluster, modules: Modules, place: str) -> None:
    cluster.kubectl("create", "namespace", place)
    cluster.apply(config_map(place, of="a user"))
    given = options(place, config_map(place, key="1"), permissions=PERMISSIONS)
    name = f"ConfigMap {place}/{program(place)}"
    failed = modules.run(MODULE, **given)
    assert failed["failed"] and failed["msg"].startswith("Nothing was applied. These objects do not have the labels"), failed
    assert f": {name}. Delete or rename them." in failed["msg"]
    assert not failed["changed"]
    (problem,) = problems(modules.run(MODULE, state="checked", **given))
    assert name in problem
    absent = modules.run(MODULE, state="absent", **given)
    assert absent["not_deleted"] == [name] and not absent["changed"]
    assert absent["namespace_stays"] == f"Namespace {place} is not deleted, because this collection did not make it"
    assert cluster.get(f"/api/v1/namespaces/{place}/configmaps/{program(place)}")["data"] == {"of": "a user"}


def test_a_namespace_with_objects_of_others_stays_and_no_secret_is_shown(cluster: Cluster, modules: Modules, place: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": program(place), "namespace": place}, "data": {"key": SECRET}}
    given = options(place, secret, config_map(place, key="1"))
    results = [modules.run(MODULE, diff=True, **given)]
    changed = {**secret, "data": {"key": SECRET, "more": SECRET}}
    results.append(modules.run(MODULE, diff=True, **options(place, changed, config_map(place, key="1"))))
    assert changes(results[1])["Secret"] == "changed" and results[1]["diff"]
    cluster.apply(config_map(place, "of-a-user"))
    results.append(modules.run(MODULE, diff=True, state="absent", **given))
    reason = f"Namespace {place} is not deleted, because it has objects of others: ConfigMap/of-a-user"
    assert results[2]["namespace_stays"] == reason and reason in results[2]["remarks"]
    assert SECRET not in str(results) and "very-secret" not in str(results)


def test_objects_of_every_kind_and_what_cannot_be_read_keep_the_namespace(cluster: Cluster, modules: Modules, place: str) -> None:
    cluster.apply([WIDGETS, AGGREGATED])
    cluster.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/widgets.{GROUP}")
    try:
        given = options(place, config_map(place, key="1"))
        modules.run(MODULE, **given)
        metadata = {"name": "of-a-user", "namespace": place}
        backend = {"resource": {"kind": "A", "name": "a"}}
        cluster.apply(
            [
                {"apiVersion": f"{GROUP}/v1beta1", "kind": "Widget", "metadata": metadata},
                {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": {"defaultBackend": backend}},
            ]
        )
        removed = modules.run(MODULE, state="absent", **given)
    finally:
        cluster.kubectl("delete", "apiservice", f"v1.{BROKEN}")
        cluster.kubectl("delete", "customresourcedefinition", f"widgets.{GROUP}")
    assert changes(removed)["ConfigMap"] == "deleted"
    stays = removed["namespace_stays"]
    # Two versions of a kind have the same object. An aggregated API without a server may have objects.
    assert stays.count("Widget/of-a-user") == 1 and "Ingress/of-a-user" in stays and f"{BROKEN}/v1 (" in stays and "503" in stays, stays


def test_what_the_api_server_refuses_and_missing_rights_are_problems_of_a_check(cluster: Cluster, modules: Modules, place: str) -> None:
    wrong = config_map(place, "Not A Name")
    unknown = {"apiVersion": "example.org/v1", "kind": "Unknown", "metadata": {"name": "x", "namespace": place}}
    # The namespace does not exist, so the API server tries them in another one.
    result = modules.run(MODULE, state="checked", **options(place, wrong, unknown, config_map(place)))
    refused, kind = problems(result)
    assert refused.startswith(f"ConfigMap Not A Name in namespace {place} is refused: "), refused
    assert (
        kind
        == f"Unknown x in namespace {place} is refused: the cluster does not know the kind example.org/v1/Unknown: install what defines it"
    )
    optional = modules.run(MODULE, state="checked", **options(place, unknown), optional_kinds=["example.org/v1/Unknown"])
    assert problems(optional) == [] and changes(optional) == {"Namespace": "unchanged"}

    nobody = Modules(cluster.service_account("applies-nothing", cluster_role=None))
    rights = [
        {"group": "", "resources": ["configmaps"], "namespaces": [place], "verbs": ["get", "create"], "names": ["x"]},
        {"group": "apps", "resources": ["deployments"], "verbs": ["list"], "asked": False},
        {"group": "apps", "resources": ["daemonsets"], "verbs": ["list"]},
        {"group": "coordination.k8s.io", "resources": ["leases"], "verbs": ["create"]},
    ]
    asked = nobody.run(MODULE, state="checked", rights=rights, unneeded_verbs=["create"], **options(place, config_map(place)))
    assert problems(asked) == [
        f"the user may not get configmaps named x in namespace {place}: grant the verb",
        "the user may not list daemonsets.apps: grant the verb",
        "the user may not create leases.coordination.k8s.io: grant the verb",
    ]
    forbidden = nobody.run(MODULE, **options(place, config_map(place)))
    assert forbidden["failed"] and "Grant the verb" in forbidden["msg"], forbidden


def test_rights_that_the_user_may_not_grant_are_a_problem_of_a_check(cluster: Cluster, place: str) -> None:
    user = Modules(cluster.service_account("applies-roles", cluster_role=None))
    subject = "--serviceaccount=default:applies-roles"
    resources = "namespaces,serviceaccounts,configmaps,clusterroles,clusterrolebindings,roles,rolebindings"
    cluster.kubectl("create", "clusterrole", place, "--verb=get,list,create,patch,delete", f"--resource={resources}")
    cluster.kubectl("label", "clusterrole", place, f"app.kubernetes.io/name={program(place)}")
    cluster.kubectl("create", "clusterrolebinding", place, f"--clusterrole={place}", subject)
    cluster.kubectl("label", "clusterrolebinding", place, f"app.kubernetes.io/name={program(place)}")
    given = {**options(place, config_map(place), permissions=PERMISSIONS[:1]), "kinds": []}
    found = problems(user.run(MODULE, state="checked", **given))
    assert found and found[0].startswith(f"ClusterRole {program(place)} is refused: "), found
    assert "attempting to grant RBAC permissions not currently held" in found[0]
    # With exactly these verbs, a set without more rights than those of the user is applied and deleted.
    smaller = [{"api_group": "", "resources": ["configmaps"], "verbs": ["list"]}]
    rest = {
        **options(place, config_map(place), permissions=smaller),
        "kinds": [],
    }
    assert problems(user.run(MODULE, state="checked", **rest)) == []
    assert changes(user.run(MODULE, **rest))["ClusterRole"] == "created"
    removed = user.run(MODULE, state="absent", **rest)
    # What the user may not list keeps the namespace.
    assert "is not deleted, because it has objects of others: " in removed["namespace_stays"] and changes(removed)["ConfigMap"] == "deleted"


def test_a_set_that_is_missing_stopped_or_changed_is_named_by_a_verification(cluster: Cluster, modules: Modules, place: str) -> None:
    given = options(place, config_map(place, key="1"), config_map(place, f"{program(place)}-2", key="1"), deployment(place))
    (missing,) = problems(modules.run(MODULE, state="verified", **given))
    assert missing.startswith(f"{program(place)} is not installed: run the playbook onprem.kube_scheduling.site. Missing: "), missing
    modules.run(MODULE, **given)
    assert problems(modules.run(MODULE, state="verified", **given)) == []
    cluster.kubectl("--namespace", place, "delete", "configmap", f"{program(place)}-2")
    cluster.kubectl("--namespace", place, "patch", "configmap", program(place), "--patch", '{"data": {"key": "2"}}')
    cluster.kubectl("--namespace", place, "scale", "deployment", program(place), "--replicas=0")
    deadline = time.monotonic() + 30
    while cluster.get(f"/apis/apps/v1/namespaces/{place}/deployments/{program(place)}")["status"].get("replicas"):
        assert time.monotonic() < deadline
    result = modules.run(MODULE, state="verified", **given)
    remedy = "run the playbook onprem.kube_scheduling.site"
    assert problems(result) == [
        f"ConfigMap {place}/{program(place)} differs from the variables in data.key: {remedy}",
        f"ConfigMap {place}/{program(place)}-2 is missing: {remedy}",
        f"Deployment {place}/{program(place)} differs from the variables in spec.replicas: {remedy}",
        f"Deployment {place}/{program(place)}: 0 of 2 replicas are updated: see kubectl --namespace {place} describe pods",
    ]
    assert not result["changed"]


def test_pods_without_a_node_are_named_and_the_next_run_continues(cluster: Cluster, modules: Modules, place: str) -> None:
    given = options(place, deployment(place, cpu="1000"), config_map(place, key="1"), pending_remedy="Lower the requests.")
    failed = modules.run(MODULE, **{**given, "wait_timeout": 4})
    assert failed["failed"] and failed["changed"], failed
    pods = sorted(pod["metadata"]["name"] for pod in cluster.get(f"/api/v1/namespaces/{place}/pods")["items"])
    assert f"Deployment {place}/{program(place)}: 0 of 2 replicas are available after 4 s (" in failed["msg"]
    assert any(f"No node is found for {a}, {b}: 0/" in failed["msg"] for a, b in (pods, pods[::-1])), failed
    assert "Insufficient cpu" in failed["msg"] and "Lower the requests. See kubectl --namespace" in failed["msg"]
    # An object after the Deployment was not applied. The next run continues.
    result = modules.run(MODULE, **options(place, deployment(place), config_map(place, key="1")))
    assert changes(result) == {"Namespace": "unchanged", "Deployment": "changed", "ConfigMap": "created"}


def test_a_deletion_that_does_not_end_is_named_and_the_next_run_continues(cluster: Cluster, modules: Modules, place: str) -> None:
    given = options(place, config_map(place, key="1"), permissions=PERMISSIONS[:1])
    modules.run(MODULE, **given)
    patch = ("--namespace", place, "patch", "configmap", program(place), "--type=merge", "--patch")
    cluster.kubectl(*patch, '{"metadata": {"finalizers": ["example.org/slow"]}}')
    failed = modules.run(MODULE, state="absent", delete_timeout=1, **given)
    assert failed["msg"].startswith(f"ConfigMap {place}/{program(place)} still exists 1 s after its deletion (its finalizers: "), failed
    assert "example.org/slow" in failed["msg"]
    cluster.kubectl(*patch, '{"metadata": {"finalizers": null}}')
    removed = modules.run(MODULE, state="absent", **given)
    assert list(changes(removed)) == ["ClusterRoleBinding", "ClusterRole", "ServiceAccount", "Namespace"]


def test_settings_that_a_revision_mounts_are_kept_and_others_are_deleted(cluster: Cluster, modules: Modules, place: str) -> None:
    """An immutable ConfigMap has a new name for each content, and a rollback needs the old one."""
    for number in (1, 2):
        settings = {**config_map(place, f"settings-{number}", key=str(number)), "immutable": True}
        program_pods = deployment(place, replicas=0)
        program_pods["spec"]["template"]["spec"]["volumes"] = [{"name": "settings", "configMap": {"name": f"settings-{number}"}}]
        # Only the labels of a member are those of its ReplicaSets.
        program_pods["spec"]["template"]["metadata"]["labels"] = {
            "app.kubernetes.io/name": program(place),
            "app.kubernetes.io/part-of": "kube-scheduling",
            "app.kubernetes.io/managed-by": "onprem.kube_scheduling",
        }
        modules.run(MODULE, **options(place, settings, program_pods))
    names = {item["metadata"]["name"] for item in cluster.get(f"/api/v1/namespaces/{place}/configmaps")["items"]}
    assert {"settings-1", "settings-2"} <= names
    cluster.kubectl("--namespace", place, "delete", "deployment", program(place), "--cascade=foreground")
    result = modules.run(MODULE, **options(place, settings))
    assert [row["name"] for row in result["objects"] if row["change"] == "deleted"] == ["settings-1"]


def test_files_are_written_without_a_cluster(tmp_path: Path, place: str) -> None:
    nowhere = Modules(tmp_path / "no-kubeconfig")
    folder = tmp_path / "base"
    given = options(place, config_map(place, key="1"), state="rendered", render_to=str(folder))
    planned = nowhere.run(MODULE, check_mode=True, **given)
    assert planned["changed"] and not folder.exists()
    assert nowhere.run(MODULE, **given)["changed"] and not nowhere.run(MODULE, **given)["changed"]
    assert {file.name for file in folder.iterdir()} == {"namespace.yaml", f"{place}-all.yaml", "kustomization.yaml"}
    assert (folder / "namespace.yaml").stat().st_mode & 0o777 == 0o644
