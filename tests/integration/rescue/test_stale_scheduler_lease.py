# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler that runs without leader election beside the Lease that an earlier one has left."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from lab.cluster import Cluster
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import SYSTEM, Scene

__all__ = ["cluster"]

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/kube-scheduler"


@contextmanager
def scheduler_without_lease(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Runs instead of the lab's own."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}],
    }
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(configuration))
    command = [str(cluster.binary("kube-scheduler")), "--config", str(folder / "scheduler.yaml"), "--secure-port", "0"]
    cluster.kill("kube-scheduler")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=20)
            cluster.start("kube-scheduler")


def test_fresh_proof_that_the_scheduler_runs_overrides_a_stale_lease(scene: Scene, rescues: Rescues, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    with scheduler_without_lease(scene.cluster, tmp_path):
        scene.api.merge_patch(LEASE, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z", "holderIdentity": "gone"}})
        row = rescues.one(scene.critical("dns"))
        assert row["status"] == "rescued", row
