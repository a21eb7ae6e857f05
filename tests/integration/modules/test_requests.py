# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restart of one Deployment costs the requests it needs and no others, by the API server's own record."""

from __future__ import annotations

from collections import Counter

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.restart_requests import EVICTED, NOT_NEEDED, PLANNED, RESTARTED, asked_for, count_requests
from tests.integration.workloads import deployment, identity, pile_up

# Shows that the server can be reached and knows the user. It takes the place of about thirty requests by which the kubernetes client
# discovers the API.
REACHED = Counter({"get /version": 1})
# Everything that decides whether and where replicas may move: nodes, what uses their capacity, the workloads of this kind in the
# namespace with their revisions, and what bounds them.
REPLICAS = ("nodes", "namespaces", "pods", "deployments", "replicasets", "poddisruptionbudgets")
# StatefulSets may share budgets with the Deployment.
ROOM = ("resourcequotas", "horizontalpodautoscalers", "limitranges", "statefulsets")
# The scores of pods without spread constraints depend on the Services.
SCORES = ("services",)
LOOK = Counter(f"list {resource}" for resource in (*REPLICAS, *ROOM, *SCORES))
LAST_LOOK = Counter(f"list {resource}" for resource in REPLICAS)
# Read again right before it is written, because others write to it as well.
GUARDED_WRITE = Counter({"get deployments": 1, "patch deployments": 1})
# The write that begins a restart or an eviction also depends on the window of the namespace, which is read again.
FIRST_WRITE = GUARDED_WRITE + Counter({"get namespaces": 1})
TOLD = Counter({"create events": 1})
MAX_REQUESTS = {
    PLANNED: REACHED + LOOK + FIRST_WRITE,
    NOT_NEEDED: REACHED + LOOK,
    # Before and after it an observation, a write and an Event; between them the wait: a watch, and a read when it has ended.
    RESTARTED: REACHED
    + LOOK
    + LAST_LOOK
    + FIRST_WRITE
    + GUARDED_WRITE
    + TOLD
    + TOLD
    + Counter({"watch deployments": 1, "get deployments": 1}),
    # The same with the eviction, which is asked for as a dry run first. How often the pods and the workload are read while the
    # replacement comes depends on which of them changes last. On a slow machine the status of the Deployment shows late that the pod is
    # gone: then another wait and another observation follow.
    EVICTED: REACHED
    + LOOK
    + LOOK
    + LOOK
    + FIRST_WRITE
    + GUARDED_WRITE
    + TOLD
    + TOLD
    + Counter({"create pods/eviction": 2, "get deployments": 8, "list pods": 6, "watch pods": 4, "watch deployments": 2}),
}


def test_a_restart_asks_for_no_more_than_it_needs(cluster: Cluster, modules: Modules, namespace: str) -> None:
    counts = count_requests(cluster, modules, namespace)
    too_many = {name: dict(found - MAX_REQUESTS[name]) for name, found in counts.items() if found - MAX_REQUESTS[name]}
    assert too_many == {}, counts
    assert counts[RESTARTED]["patch deployments"] == 2 and counts[EVICTED]["create pods/eviction"] == 2


def test_restarts_that_are_not_waited_for_do_not_read_the_cluster_for_each_target(
    cluster: Cluster, modules: Modules, namespace: str
) -> None:
    targets = [deployment(namespace, f"web-{number}", 2) for number in range(8)]
    pile_up(cluster, *targets)
    mark = cluster.audit().mark()
    lines = modules.restart(workloads=[identity(target) for target in targets], wait=False)["workloads"]
    assert [(line["action"], line["outcome"]) for line in lines] == [("restarted", "pending")] * len(targets)
    counts = asked_for(cluster, mark)
    # For each target a guarded write and an Event, and for all of them one observation, or another one where the machine is slow.
    each = FIRST_WRITE + TOLD
    most = REACHED + LOOK + LOOK + Counter({name: len(targets) * number for name, number in each.items()})
    assert dict(counts - most) == {}, counts
    assert counts["patch deployments"] == len(targets)
