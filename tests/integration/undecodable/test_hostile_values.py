# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that the API server admits from any tenant, and that a program can stumble over, end no run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import SCENE_LABEL, Scene
from tests.integration.undecodable.tampering import connection_to
from tests.integration.workloads import IMAGE, deployment, wait_rolled_out, wait_until

Json = dict[str, Any]

REVISION = "deployment.kubernetes.io/revision"
OUTCOME = "kube-scheduling.onprem/last-outcome"
DEEP = 4000


def check(cluster: Cluster, namespace: str) -> Json:
    """The only workload of the namespace, as k8s_spread_check judges it."""
    result = Modules(cluster.kubeconfig).run("k8s_spread_check", namespaces=[namespace], namespace_annotation="", include_healthy=True)
    assert not result.get("failed"), result
    (line,) = result["workloads"]
    found: Json = line
    return found


def piled_up(cluster: Cluster, scene: Scene, manifest: Json) -> None:
    """Create the workload with all its replicas on one of two nodes that are open to it."""
    _first, second = scene.nodes(2, cpu="4")
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {SCENE_LABEL: scene.id}
    cluster.cordon(second)
    try:
        cluster.api.post(f"/apis/apps/v1/namespaces/{scene.namespace}/{manifest['kind'].lower()}s", manifest)
        wait_rolled_out(cluster, manifest)
    finally:
        cluster.uncordon(second)


@pytest.mark.parametrize("revision", ["²", "9" * 5000, "-1", ""], ids=["digit of another kind", "long", "negative", "empty"])
def test_revision_of_a_replica_set_that_is_no_number_ends_no_check(cluster: Cluster, scene: Scene, revision: str) -> None:
    web = deployment(scene.namespace, "web", 2)
    piled_up(cluster, scene, web)
    labels = {"app": "web"}
    body = {
        "metadata": {"name": "odd", "annotations": {REVISION: revision}, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": IMAGE}]}},
        },
    }
    path = f"/apis/apps/v1/namespaces/{scene.namespace}/replicasets"
    cluster.api.post(path, body)
    wait_until(lambda: cluster.get(f"{path}/odd")["metadata"].get("ownerReferences"), what="the Deployment's adoption of the ReplicaSet")
    assert check(cluster, scene.namespace)["verdict"] == "collapsed"
    kept = cluster.get(f"{path}/odd")["metadata"]
    assert kept["annotations"][REVISION] == revision and kept["ownerReferences"]


@pytest.mark.parametrize(
    "outcome",
    [
        '{"time":"10000-01-01T00:00:00Z","attempts":1,"outcome":"worse","revision":"x","eligible":"y"}',
        '{"time":"2026-01-01T00:00:00Z","attempts":%s,"outcome":"worse","revision":"x","eligible":"y"}' % ("9" * 4000),
        '{"x":%s}' % ("[" * 100_000 + "]" * 100_000),
        "[" * 200_000,
    ],
    ids=["year 10000", "huge attempts", "deep", "deep and broken"],
)
def test_remembered_outcome_that_a_user_edited_ends_no_check(cluster: Cluster, scene: Scene, outcome: str) -> None:
    web = deployment(scene.namespace, "web", 2)
    web["metadata"]["annotations"] = {OUTCOME: outcome}
    piled_up(cluster, scene, web)
    line = check(cluster, scene.namespace)
    assert (line["verdict"], line["restart_helps"]) == ("collapsed", True)


def test_pod_that_ends_in_a_far_future_ends_no_rescue(cluster: Cluster, scene: Scene, rescues: Rescues) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="900m")
    scene.bare("slow", second, cpu="900m", grace=300_000_000_000)
    options = {"gracePeriodSeconds": 300_000_000_000}
    cluster.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/slow", options)
    pod = cluster.get(f"/api/v1/namespaces/{scene.namespace}/pods/slow")
    assert pod["metadata"].get("deletionTimestamp"), "it is gone"
    print(pod["metadata"]["deletionTimestamp"])
    row = rescues.one(scene.critical("dns", node=first), wait_timeout=20)
    assert (row["status"], row["node"]) == ("rescued", first)


def test_managed_fields_thousands_of_levels_deep_end_no_rescue(cluster: Cluster, scene: Scene, rescues: Rescues) -> None:
    """The API server keeps them as they were sent."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    deep = '{"f:a":' * DEEP + "{}" + "}" * DEEP
    field = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": IMAGE}]}
    text = json.dumps({"metadata": {"name": "deep", "managedFields": [field]}, "spec": spec}).replace('"DEEP"', deep).encode()
    assert _post(cluster, f"/api/v1/namespaces/{scene.namespace}/pods", text) == 201
    row = rescues.one(scene.critical("dns"))
    assert (row["status"], row["node"]) == ("rescued", node)


def _post(cluster: Cluster, path: str, body: bytes) -> int:
    """POST a text as it is; the answer's status."""
    connection = connection_to(cluster)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        print(answer.read()[:300])
        return answer.status
    finally:
        connection.close()


@pytest.mark.parametrize("renewed", ["0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.000000-10:00"], ids=["year 0", "year 10000"])
def test_times_outside_of_the_calendar_in_the_lease_of_the_rescuers_end_no_rescue(
    cluster: Cluster, scene: Scene, rescues: Rescues, renewed: str
) -> None:
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 1, "renewTime": renewed, "acquireTime": renewed}
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    cluster.api.request("DELETE", f"{path}/kube-scheduling-rescue")
    answer = cluster.api.request("POST", path, {"metadata": {"name": "kube-scheduling-rescue"}, "spec": spec})
    assert answer.status == 201, answer.message
    try:
        (node,) = scene.nodes()
        scene.occupant("web", node, cpu="900m")
        row = rescues.one(scene.critical("dns"))
        assert (row["status"], row["node"]) == ("rescued", node)
    finally:
        cluster.api.request("DELETE", f"{path}/kube-scheduling-rescue")
        wait_until(lambda: cluster.api.find(f"{path}/kube-scheduling-rescue") is None, what="no Lease")
