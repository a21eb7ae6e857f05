# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A user with exactly the rights for which site.yml or uninstall.yml asks before it changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tools.tables import variables

NAME = "installs-programs"
NAMESPACE = "kube-scheduling"
RBAC = "rbac.authorization.k8s.io"
OF_EXTENDER = "kube-scheduling-scheduler-extender"

Rule = dict[str, Any]


def rules_of_scheduler(*, removes: bool = False) -> dict[str, list[Rule]]:
    """Return the rights for scheduler.yml by namespace."""
    declared = variables("site")
    # The user binds the scheduler to roles of Kubernetes, and grants it rights that the user does not have.
    bound = ["system:kube-scheduler", "system:volume-scheduler", OF_EXTENDER]
    binding = [
        {"group": RBAC, "resources": ["clusterroles"], "verbs": ["bind"], "names": bound},
        {"group": RBAC, "resources": ["clusterroles"], "verbs": ["escalate"], "names": [OF_EXTENDER]},
        {"group": RBAC, "resources": ["roles"], "verbs": ["bind", "escalate"], "namespaces": ["kube-system"]},
    ]
    removal = declared["__site_scheduler_removal_rights"] if removes else []
    return _by_namespace([*declared["__site_scheduler_rights"], *removal, *binding])


def rules(*, uninstalls: bool) -> dict[str, list[Rule]]:
    """Return the rights for site.yml or uninstall.yml by namespace. Those of the whole cluster have an empty namespace."""
    declared = variables("site")
    # Those with `only` are for other forms and tags.
    installing = [entry for entry in declared["__site_rights"] if "only" not in entry]
    # The user grants the programs rights that it does not have.
    granting = [
        {"group": RBAC, "resources": [resource], "verbs": ["escalate", "bind"], "namespaces": namespaces}
        for resource, namespaces in (("clusterroles", [""]), ("roles", ["kube-system", "default"]))
    ]
    removing = [{**entry, "verbs": [verb for verb in entry["verbs"] if verb != "create"]} for entry in installing] + declared[
        "__site_removal_rights"
    ]
    return _by_namespace(removing if uninstalls else [*installing, *granting])


def _by_namespace(entries: list[Rule]) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for entry in entries:
        for namespace in entry.get("namespaces", [""]):
            rule = {"apiGroups": [entry["group"]], "resources": entry["resources"], "verbs": entry["verbs"]}
            names = {"resourceNames": entry["names"]} if "names" in entry else {}
            place = NAMESPACE if "__site_namespace" in namespace else "default" if "{{" in namespace else namespace
            found.setdefault(place, []).append(rule | names)
    return found


@contextmanager
def restricted_user(cluster: Cluster, *, uninstalls: bool = False) -> Iterator[Path]:
    """Make the user, and delete its rights at the end. The namespace of the programs exists, because rights in it need it."""
    labels = {"app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    cluster.wait_namespace(NAMESPACE)
    with user_with(cluster, rules(uninstalls=uninstalls)) as kubeconfig:
        yield kubeconfig


@contextmanager
def user_with(cluster: Cluster, granted_rules: dict[str, list[Rule]]) -> Iterator[Path]:
    """Make a user with these rights by namespace, and delete the rights at the end."""
    kubeconfig = cluster.service_account(NAME, cluster_role=None)
    for namespace, granted in granted_rules.items():
        kind = "Role" if namespace else "ClusterRole"
        metadata = {"name": NAME} | ({"namespace": namespace} if namespace else {})
        subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}]
        role_ref = {"apiGroup": RBAC, "kind": kind, "name": NAME}
        binding = {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": metadata, "subjects": subjects, "roleRef": role_ref}
        cluster.apply([{"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, "rules": granted}, binding])
    yield kubeconfig
    for namespace in granted_rules:
        place = ("--namespace", namespace) if namespace else ()
        kinds = "role,rolebinding" if namespace else "clusterrole,clusterrolebinding"
        cluster.kubectl("delete", kinds, NAME, *place, "--ignore-not-found")
