# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""scheduler_probe and scheduler_cluster against a real API server, whose scheduler has the profile default-scheduler."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import IMAGE

Json = dict[str, Any]

PROBE = {"app.kubernetes.io/name": "kube-scheduling-probe", "app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
SPEC: Json = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": IMAGE}]}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def pod(namespace: str, **spec: Any) -> Json:
    metadata = {"namespace": namespace, "labels": PROBE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **SPEC}}


def names(cluster: Cluster, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.get(path)["items"]]


def test_profiles_are_tried_and_no_pod_is_left(cluster: Cluster, modules: Modules, namespace: str) -> None:
    options = {"pod": pod(namespace), "profiles": ["default-scheduler"], "wait_timeout": 30}
    cluster.api.post(LEASES.format(namespace), {"metadata": {"name": "scheduler"}, "spec": {"holderIdentity": "cp-1_x"}})
    bound = modules.run("scheduler_probe", **options, lease={"namespace": namespace, "name": "scheduler"})
    assert "default-scheduler has bound a pod to " in "".join(bound.get("remarks", [])) and not bound["changed"], bound
    assert modules.run("scheduler_probe", **options, check_mode=True)["remarks"] == []

    nobody = modules.run("scheduler_probe", **options | {"profiles": ["nobody"], "wait_timeout": 1}, log_command="kubectl logs x")
    assert nobody["msg"] == "The scheduler has not bound a pod of the profile nobody after 1 s (it has no Event). See kubectl logs x"
    assert names(cluster, f"/api/v1/namespaces/{namespace}/pods") == []


def test_a_pod_that_the_api_server_refuses_is_named_by_a_check(modules: Modules, namespace: str) -> None:
    options: Json = {"state": "checked", "profiles": ["nobody"], "check_mode": True}
    assert not modules.run("scheduler_probe", **options, pod=pod(namespace)).get("failed")
    refused = modules.run("scheduler_probe", **options, pod=pod(namespace, restartPolicy="Sometimes"))
    assert refused["failed"] and f"cannot create Pod {namespace}/kube-scheduling-probe-" in refused["msg"], refused
    assert "spec.restartPolicy" in refused["msg"]


def test_the_users_of_a_profile_are_named_and_the_state_of_its_programs_is_deleted(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    pods, leases = f"/api/v1/namespaces/{namespace}/pods", LEASES.format(namespace)
    own = {"metadata": {"name": "waits"}, "spec": {**pod(namespace)["spec"], "schedulerName": "web"}}
    cluster.api.post(pods, own)
    cluster.api.post(pods, {**own, "metadata": {"name": "left", "labels": PROBE}})
    cluster.api.post(leases, {"metadata": {"name": "of-program"}})
    found = modules.run("scheduler_cluster", state="users", profiles=["web", "batch"])
    assert found["users"] == [f"Pod {namespace}/waits (web)"] and found["version"] == cluster.get("/version")["gitVersion"]

    user = cluster.service_account("reads-pods", cluster_role="view")
    read = modules.run("scheduler_cluster", files=[{"kind": "Secret", "name": "x", "key": "y"}], kubeconfig=str(user))
    assert read["missing_files"] == [] and read["profiles"] == [], read
    nobody = cluster.service_account("reads-nothing", cluster_role=None)
    unknown = modules.run("scheduler_cluster", state="users", profiles=["web"], kubeconfig=str(nobody))
    assert unknown["failed"] and "cannot list pods" in unknown["msg"] and "Grant the verb 'list'" in unknown["msg"], unknown

    absent = {"state": "absent", "namespace": namespace, "leases": ["of-program"], "probe_namespace": namespace, "profiles": ["web"]}
    deleted = [f"Lease {namespace}/of-program", f"Pod {namespace}/left"]
    planned = modules.run("scheduler_cluster", **absent, check_mode=True)
    assert planned["changed"] and planned["deleted"] == deleted and len(names(cluster, pods)) == 2
    late = modules.run("scheduler_cluster", **absent)
    assert late["deleted"] == deleted and late["changed"], late
    assert f"pods that were created meanwhile would wait for it: Pod {namespace}/waits (web). Delete them" in late["msg"]
    assert names(cluster, pods) == ["waits"] and names(cluster, leases) == []
    assert modules.run("scheduler_cluster", **absent | {"profiles": []})["deleted"] == []
