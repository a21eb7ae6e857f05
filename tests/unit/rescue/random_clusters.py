# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random small clusters that are too full for a critical pod. Few values of each kind, so that they meet often."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodStatus
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import CRITICAL, Json, affinity_term, anti_affinity, budget, job, node, pending, pod_affinity, running

HOST = "kubernetes.io/hostname"
APPS = ("web", "db", "cache", "batch", "log")
KINDS = {"web": "ReplicaSet", "db": "StatefulSet", "cache": "ReplicaSet", "batch": "Job", "log": "ReplicaSet"}
LEVELS = ((0,), (0, 0, 0, 100), (-5, 0, 100, 1000), (0, 100, CRITICAL))


@dataclass(frozen=True)
class Cluster:
    """A snapshot, the pod that finds no node in it, the options, and the uids of the pods that were rescued a short time ago."""

    snapshot: ClusterSnapshot
    pod: Pod
    options: RescueOptions
    rescued: frozenset[str]


def chance(random: Random, percent: int) -> bool:
    """True in so many of a hundred cases."""
    return random.randrange(100) < percent


def random_cluster(random: Random, *, most_pods: int = 7) -> Cluster:
    """Two or three nodes with up to ``most_pods`` pods each."""
    nodes = [_node(random, f"node-{number}") for number in range(random.choice((2, 3)))]
    levels = random.choice(LEVELS)
    pods = [_running(random, found.name, levels) for found in nodes for _number in range(random.randint(most_pods // 2, most_pods))]
    if chance(random, 10):
        pods.append(_nominated(random, nodes[0].name))
    budgets = [budget(app, {"app": app}, allowed=random.randint(0, 3), healthy=4) for app in APPS if chance(random, 25)]
    if chance(random, 5):
        budgets.append(budget("all", {}, allowed=2, healthy=9))
    jobs = [job("batch", {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]})] if chance(random, 50) else []
    pod = _critical(random)
    snapshot = snapshot_of(nodes=nodes, pods=[*pods, pod], budgets=budgets, jobs=jobs)
    options = _options(random)
    rescued = frozenset(one.metadata.uid for one in pods if one.spec.priority == CRITICAL and chance(random, 30))
    return Cluster(snapshot, pod, options, rescued)


def _node(random: Random, name: str) -> Node:
    room = {
        "cpu": random.choice(("800m", "1", "1500m")),
        "memory": random.choice(("1Gi", "64Gi")),
        "example.com/gpu": random.choice(("1", "3")),
        "pods": random.choice(("110", "110", "110", "8")),
    }
    taints = [{"key": "closed", "effect": "NoSchedule"}] if chance(random, 3) else None
    return node(name, labels={HOST: name, "zone": random.choice("ab")}, allocatable=room, taints=taints, ready=not chance(random, 2))


def _running(random: Random, on: str, levels: tuple[int, ...]) -> Pod:
    app = random.choice(APPS)
    more: Json = {}
    if chance(random, 15):
        more["ports"] = [{"containerPort": 80, "hostPort": random.choice((80, 81)), "hostIP": random.choice(("", "10.0.0.1"))}]
    if chance(random, 6):
        more["affinity"] = anti_affinity({"app": "dns"}, random.choice((HOST, "zone")))
    elif chance(random, 10):
        more["affinity"] = anti_affinity({"app": app}, random.choice((HOST, "zone")))
    if chance(random, 6):
        more["terminationGracePeriodSeconds"] = 60
    if chance(random, 4):
        more["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    if chance(random, 4):
        more["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
    if chance(random, 20):
        more["preemptionPolicy"] = "Never"
    if chance(random, 4):
        more["volumes"] = [{"name": "data", "emptyDir": {}}]
    kind, owner = ("DaemonSet", "agent") if chance(random, 4) else (KINDS[app], app)
    return running(
        on,
        random.choice(("0", "100m", "200m", "300m", "350m", "450m")),
        priority=random.choice(levels),
        owner="" if chance(random, 4) else owner,
        kind=kind,
        ready=chance(random, 80),
        phase="Pending" if chance(random, 3) else "Running",
        labels={"app": app},
        created=f"2026-01-0{random.randint(1, 3)}T00:00:00Z",
        requests=_requests(random, 35),
        metadata={"deletionTimestamp": "2026-02-01T00:00:00Z"} if chance(random, 3) else None,
        **more,
    )


def _requests(random: Random, percent: int) -> Json:
    amounts = {"memory": ("128Mi", "256Mi", "512Mi"), "example.com/gpu": ("1", "2")}
    return {name: random.choice(values) for name, values in amounts.items() if chance(random, percent)}


def _nominated(random: Random, node_name: str) -> Pod:
    waiting = pending("200m", priority=random.choice((0, CRITICAL)), owner="other")
    return replace(waiting, status=PodStatus(phase="Pending", nominated_node_name=node_name))


def _critical(random: Random) -> Pod:
    more: Json = {}
    if chance(random, 15):
        more["ports"] = [{"containerPort": 80, "hostPort": 80}]
    drawn = random.randrange(100)
    if drawn < 10:
        more["affinity"] = anti_affinity({"app": random.choice(APPS)}, random.choice((HOST, "zone")), namespaces=["app"])
    elif drawn < 20:
        more["affinity"] = pod_affinity(affinity_term({"app": random.choice(APPS)}, random.choice((HOST, "zone")), namespaces=["app"]))
    elif drawn < 28:
        more |= {"namespace": "app", "topologySpreadConstraints": [_spread(random)]}
    labels = {"app": "dns"}
    if chance(random, 20) and "namespace" not in more:
        more |= {"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}, "priority": random.choice((0, 100))}
    return pending(random.choice(("300m", "500m", "700m", "800m")), labels=labels, requests=_requests(random, 40), **more)


def _spread(random: Random) -> Json:
    selector = {"matchLabels": {"app": random.choice(APPS)}}
    return {"topologyKey": random.choice((HOST, "zone")), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _options(random: Random) -> RescueOptions:
    return RescueOptions(
        max_victims=random.choice((None, None, None, 1, 2, 3)),
        allow_equal_priority=chance(random, 30),
        allow_bare_pods=chance(random, 30),
        allow_local_storage=chance(random, 30),
        allow_short_grace=chance(random, 30),
    )
