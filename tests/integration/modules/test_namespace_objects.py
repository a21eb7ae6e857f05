# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""k8s_namespace_objects: the objects of all kinds, compared with what kubectl finds, and what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules

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


@pytest.fixture
def widgets(cluster: Cluster) -> Iterator[str]:
    """A kind of a custom resource."""
    cluster.apply(WIDGETS)
    cluster.kubectl("wait", "--for=condition=Established", f"customresourcedefinition/widgets.{GROUP}")
    yield "Widget"
    cluster.kubectl("delete", "customresourcedefinition", f"widgets.{GROUP}")


@pytest.fixture
def aggregated(cluster: Cluster) -> Iterator[str]:
    """A version of a group whose server does not exist."""
    cluster.apply(AGGREGATED)
    yield f"{BROKEN}/v1"
    cluster.kubectl("delete", "apiservice", f"v1.{BROKEN}")


def listed(cluster: Cluster, namespace: str) -> set[tuple[str, str]]:
    """The kind and the name of each object that kubectl finds, without Events."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--namespaced", "--output=name").split()
    wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
    lines = cluster.kubectl("get", wanted, "--namespace", namespace, "--no-headers", "--output=custom-columns=K:.kind,N:.metadata.name")
    return {(kind, name) for kind, name in (line.split() for line in lines.splitlines())}


def test_objects_of_every_kind_are_listed_once_with_their_labels(cluster: Cluster, modules: Modules, namespace: str, widgets: str) -> None:
    labels = {"app.kubernetes.io/part-of": "shop"}
    metadata = {"name": "own", "namespace": namespace, "labels": labels}
    cluster.apply(
        [
            {"apiVersion": f"{GROUP}/v1beta1", "kind": widgets, "metadata": metadata},
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"password": "kept to itself"}},
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "metadata": metadata,
                "spec": {"defaultBackend": {"resource": {"kind": "A", "name": "a"}}},
            },
        ]
    )
    result = modules.run("k8s_namespace_objects", namespace=namespace, exclude_kinds=["Event"])
    rows = [(item["kind"], item["name"]) for item in result["objects"]]
    assert rows == sorted(rows) and set(rows) == listed(cluster, namespace) and len(rows) == len(set(rows))
    assert {(widgets, "own"), ("Secret", "own"), ("Ingress", "own"), ("ServiceAccount", "default")} <= set(rows)
    assert all(item["labels"] == labels for item in result["objects"] if item["name"] == "own")
    assert result["unreadable"] == [] and "kept to itself" not in str(result)


def test_a_namespace_that_is_missing_has_no_objects(modules: Modules) -> None:
    result = modules.run("k8s_namespace_objects", namespace="no-such-namespace")
    assert (result["objects"], result["unreadable"]) == ([], [])


def test_an_aggregated_api_without_a_server_is_named_and_the_others_are_listed(modules: Modules, namespace: str, aggregated: str) -> None:
    result = modules.run("k8s_namespace_objects", namespace=namespace)
    (unreadable,) = result["unreadable"]
    assert unreadable["kind"] == aggregated and "503" in unreadable["message"]
    assert ("ConfigMap", "kube-root-ca.crt") in {(item["kind"], item["name"]) for item in result["objects"]}


def test_kinds_that_the_user_may_not_list_are_named(cluster: Cluster, namespace: str) -> None:
    kubeconfig: Path = cluster.service_account("lists-config-maps", cluster_role=None)
    cluster.kubectl("create", "role", "lists", "--namespace", namespace, "--verb=list", "--resource=configmaps")
    cluster.kubectl(
        "create", "rolebinding", "lists", "--namespace", namespace, "--role=lists", "--serviceaccount=default:lists-config-maps"
    )
    result = Modules(kubeconfig).run("k8s_namespace_objects", namespace=namespace)
    assert [(item["kind"], item["name"]) for item in result["objects"]] == [("ConfigMap", "kube-root-ca.crt")]
    unreadable = {item["kind"]: item["message"] for item in result["unreadable"]}
    assert "ConfigMap" not in unreadable
    assert unreadable["Secret"].startswith(f"cannot list secrets in namespace {namespace}: secrets is forbidden")
    assert "docs/" not in str(result["unreadable"])
