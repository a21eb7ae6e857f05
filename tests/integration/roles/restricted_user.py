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

Rule = dict[str, Any]


def rules(*, uninstalls: bool) -> dict[str, list[Rule]]:
    """Return the rights by namespace. Those of the whole cluster have an empty namespace."""
    declared = variables("site")
    # Those with `only` are for other forms and tags.
    installing = [entry for entry in declared["__site_rights"] if "only" not in entry]
    # The user grants the programs rights that it does not have.
    granting = [
        {"group": RBAC, "resource": resource, "verbs": ["escalate", "bind"], "namespaces": namespaces}
        for resource, namespaces in (("clusterroles", [""]), ("roles", ["kube-system", "default"]))
    ]
    removing = [{**entry, "verbs": [verb for verb in entry["verbs"] if verb != "create"]} for entry in installing] + declared[
        "__site_removal_rights"
    ]
    found: dict[str, list[Rule]] = {}
    for entry in removing if uninstalls else (*installing, *granting):
        for namespace in entry.get("namespaces", [""]):
            rule = {"apiGroups": [entry["group"]], "resources": [entry["resource"]], "verbs": entry["verbs"]}
            names = {"resourceNames": entry["names"]} if "names" in entry else {}
            found.setdefault(namespace.replace("{{ __site_namespace }}", NAMESPACE), []).append(rule | names)
    return found


@contextmanager
def restricted_user(cluster: Cluster, *, uninstalls: bool = False) -> Iterator[Path]:
    """Make the user, and delete its rights at the end. The namespace of the programs exists, because rights in it need it."""
    labels = {"app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
    cluster.wait_namespace(NAMESPACE)
    kubeconfig = cluster.service_account(NAME, cluster_role=None)
    granted_rules = rules(uninstalls=uninstalls)
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
