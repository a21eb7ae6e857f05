# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Lists and deletes the objects of this collection in a cluster."""

from __future__ import annotations

from lab.cluster import Cluster
from tests.integration.kubernetes_version import MINOR
from tests.integration.workloads import wait_until

OWN = "app.kubernetes.io/managed-by=onprem.kube_scheduling"
POLICIES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings") if MINOR >= 36 else ()
"""Older API servers do not know these kinds."""
PATHS = (
    "/api/v1/namespaces",
    "/api/v1/serviceaccounts",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/cronjobs",
    "/apis/batch/v1/jobs",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    *(f"/apis/admissionregistration.k8s.io/v1/{kind}" for kind in POLICIES),
)
"""The kinds of which the roles make objects, and those that controllers make for them."""
SETTINGS = "configmaps kube-system/kube-scheduling-scheduler-"
"""The beginning of ConfigMaps in kube-system that are no state."""


def installed(cluster: Cluster) -> set[str]:
    """Return the objects whose name or namespace begins like those of this collection, such as ``configmaps kube-scheduling/x``."""
    return _found(cluster) - state_of(cluster)


def state_of(cluster: Cluster) -> set[str]:
    """Return the Leases and ConfigMaps in which the programs store their state, and which no role makes."""
    found = {name for name in _found(cluster) if name.startswith(("leases kube-system/", "configmaps kube-system/"))}
    return {name for name in found if not name.startswith(SETTINGS)}


def let_pods_stop(cluster: Cluster) -> None:
    """Pods of the programs stop a second after their deletion, as real ones do, and not with their grace period, as those of the lab."""
    cluster.kubectl("annotate", "pods", "--all", "--namespace", "kube-scheduling", "--overwrite", "lab.onprem/stop-after=1")


def remove_all(cluster: Cluster) -> None:
    """Delete the objects of this collection and their namespace, faster than a run of a role. The state stays."""
    let_pods_stop(cluster)
    kinds = "deployments,cronjobs,clusterrolebindings,rolebindings,clusterroles,roles,serviceaccounts,secrets,configmaps"
    others = ["poddisruptionbudgets", "networkpolicies", *POLICIES]
    cluster.kubectl("delete", ",".join([kinds, *others]), "--all-namespaces", "--selector", OWN, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", "kube-scheduling", "--ignore-not-found")
    wait_until(lambda: installed(cluster) == set(), what="the end of the objects")


def _found(cluster: Cluster) -> set[str]:
    found = set()
    for path in PATHS:
        for item in cluster.get(path)["items"]:
            name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
            if name.startswith("kube-scheduling") or namespace.startswith("kube-scheduling"):
                found.add(f"{path.rpartition('/')[2]} {namespace}/{name}")
    return found
