# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Job with an empty podFailurePolicy, which the API server serves with null in place of a list, stops nothing."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.workloads import IMAGE, wait_until

Json = dict[str, Any]


def admit_job_without_rules(cluster: Cluster, namespace: str, name: str) -> None:
    """Create the Job as any user who may create Jobs can; its pods never start."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": IMAGE}]}}
    spec = {"suspend": True, "podFailurePolicy": {}, "template": template}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api.post(f"{path}?fieldValidation=Ignore", {"metadata": {"name": name}, "spec": spec})
    served = cluster.get(f"{path}/{name}")
    assert served["spec"]["podFailurePolicy"] == {"rules": None}, "the API server does not serve null any more: find another object"


def test_release_and_rescue_work_beside_a_job_that_is_served_with_null(cluster: Cluster, scene: Scene, rescues: Rescues) -> None:
    admit_job_without_rules(cluster, scene.namespace, "no-rules")
    released = rescues.run(state="released")
    assert (released["failed"], released["skipped_objects"]) == (False, [])
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    row = rescues.one(scene.critical("dns"))
    assert (row["status"], row["node"]) == ("rescued", node)


def test_daemon_starts_and_rescues_beside_a_job_that_is_served_with_null(cluster: Cluster, scene: Scene, daemons: Start) -> None:
    admit_job_without_rules(cluster, scene.namespace, "before")
    daemon = daemons()
    wait_until(lambda: daemon.leads, what="a leader")
    admit_job_without_rules(cluster, scene.namespace, "meanwhile")
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    pod = scene.critical("dns")
    wait_until(lambda: scene.bound_to(pod) == node, what=lambda: f"{pod} on {node}; {daemon.log.read_text()}")
    assert daemon.metric("undecodable_objects") == 0 and daemon.ready
