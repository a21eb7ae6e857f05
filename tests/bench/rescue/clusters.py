# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters of full nodes on which every program of the control plane works."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus

from lab.cluster import Cluster, up
from lab.errors import LabError
from lab.scenario import NodeGroup, Scenario
from tests.bench.rescue.crowd import NODE, Crowd, priority_classes

TIMEOUT_S = 300.0
FOLLOWERS = ("kube-controller-manager", "kube-scheduler")
"""Not kwok: nobody but the process that has the nodes' Leases ends pods there, and they last for 20 minutes."""
SCHEDULER_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


@contextlib.contextmanager
def cluster_of(groups: Sequence[NodeGroup], *, variant: str) -> Iterator[Cluster]:
    """A cluster with these nodes, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="onprem-bench-") as folder:
        cluster = Cluster.at(folder, "bench")
        try:
            up(folder, "bench", scenario=Scenario("bench", tuple(groups)), variant=variant, log=print)
            cluster.apply(priority_classes())
            yield cluster
        finally:
            cluster.down()


def workers(count: int, **labels: str) -> NodeGroup:
    """Equal nodes in ten zones, which the pods of a crowd fill."""
    zones = tuple(f"zone-{number}" for number in range(1, 11))
    return NodeGroup("-".join(("worker", *labels.values())), count=count, zones=zones, labels=labels, capacity=NODE)


def names_of(group: NodeGroup) -> list[str]:
    """The nodes of a group."""
    return [group.node_name(index) for index in range(group.count)]


def fill(cluster: Cluster, crowds: Sequence[Crowd]) -> int:
    """Store the crowds; the number of objects. The programs read everything at their start, instead of following each change."""
    for name in sorted({name for crowd in crowds for name in crowd.namespaces}):
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        cluster.wait_namespace(name)
    for component in (*FOLLOWERS, "kube-apiserver"):
        cluster.kill(component)
    stored = cluster.bulk_load(item for crowd in crowds for item in crowd.objects())
    cluster.start("kube-apiserver", timeout_s=TIMEOUT_S)
    _wait_until_listed(cluster)
    # The scheduler that was killed may hold it for a while yet.
    cluster.api.request("DELETE", SCHEDULER_LEASE)
    for component in FOLLOWERS:
        cluster.start(component, timeout_s=TIMEOUT_S)
    print(f"{stored} objects stored", flush=True)
    return stored


def _wait_until_listed(cluster: Cluster) -> None:
    """Until the API server has all of it in its cache, its lists time out."""
    deadline_s, api = time.monotonic() + TIMEOUT_S, cluster.api
    while time.monotonic() < deadline_s:
        with contextlib.suppress(LabError):
            if api.request("GET", "/api/v1/pods?resourceVersion=0&limit=1").status == HTTPStatus.OK:
                return
        time.sleep(0.5)
    raise SystemExit(f"the API server does not list the pods after {TIMEOUT_S:.0f} s")
