# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Restarts that are simulated with the scores of the scheduler, and the choices of the scheduler that are not known."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import ContainerImage
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILE
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_search import SearchOrder
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.draws import (
    AT_RANDOM,
    COMBINATIONS,
    DRAWS,
    ENDS,
    MAX_DRAWS,
    Choices,
    Draw,
    Draws,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.next_pods import NextPods
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.old_pods import ending_pods
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.prediction import Prediction
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.restart_simulation import RestartSimulation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology

from tests.unit.support.cluster import ClusterBuilder, Json, workers

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OWN = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOST}


def predicted(cluster: ClusterBuilder, *, keys: tuple[str, ...] = (HOST,), **snapshot: t.Any) -> Prediction:
    read = cluster.snapshot(**snapshot)
    found = WorkloadChecker(read, CheckOptions(topology_keys=keys)).check(read.workloads()[0]).prediction
    assert found is not None
    return found


def codes(found: Prediction) -> list[str]:
    return [blocker.reason.code for blocker in found.blockers]


def test_expected_has_the_replicas_after_the_restart() -> None:
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 4)
    found = predicted(cluster)
    assert (found.restart_helps, found.expected) == (True, {HOST: {"worker-1": 2, "worker-2": 2}})


def test_a_constraint_that_counts_the_old_pods_leaves_the_choice_to_ties() -> None:
    constraint = {**OWN, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    cluster = ClusterBuilder()
    for name in ("worker-1", "worker-2"):
        # On large nodes, the score does not show the request of one pod.
        cluster.node(name, labels={ZONE: "a"}, allocatable=sized("1000"))
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"topologySpreadConstraints": [constraint]}})
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_ties"])
    (blocker,) = found.blockers
    assert f" of {DRAWS} simulated restarts spread the replicas better: " in blocker.reason.text


@pytest.mark.parametrize(
    ("grace_s", "strategy", "expected"),
    [
        (30, {}, (False, ["scoring_does_not_spread"])),
        (0, {}, (True, [])),
        (30, {"strategy": {"type": "Recreate"}}, (True, [])),
    ],
)
def test_pods_that_are_terminating_count_for_anti_affinity(grace_s: int, strategy: Json, expected: tuple[bool | None, list[str]]) -> None:
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": OWN}]}}
    cluster = workers(2)
    template = {"spec": {"affinity": affinity, "terminationGracePeriodSeconds": grace_s}}
    cluster.deployment("web", ["worker-1"] * 2, template=template, **strategy)
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == expected


@pytest.mark.parametrize(
    ("replicas", "grace_s", "together", "expected"),
    [
        pytest.param(2, 30, 1, (True, []), id="a kubelet needs time to end a pod"),
        pytest.param(2, 1, 1, (True, []), id="also with a short grace period"),
        pytest.param(2, 0, 1, (False, ["scoring_does_not_spread"]), id="not with the grace period 0"),
        pytest.param(16, 30, 16, (None, ["depends_on_termination"]), id="the controller needs time for so many pods"),
    ],
)
def test_an_old_pod_uses_its_node_until_the_new_pods_of_its_step_are_placed(
    replicas: int, grace_s: int, together: int, expected: tuple[bool | None, list[str]]
) -> None:
    """The preferred node is full of old pods, and the other one has capacity for one pod."""
    preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": ["worker-1"]}]}}]
    cluster = ClusterBuilder()
    cluster.node("worker-1", allocatable=sized(str(replicas)))
    cluster.node("worker-2", allocatable=sized("1"))
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    template = {"spec": {"affinity": affinity, "containers": [container("1")], "terminationGracePeriodSeconds": grace_s}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": together}}
    cluster.deployment("web", ["worker-1"] * replicas, template=template, strategy=strategy)
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == expected


def test_in_a_large_cluster_the_result_may_depend_on_the_nodes_that_are_scored() -> None:
    """Two of 120 nodes are preferred. The scheduler scores 100: if only one of the two is scored, it gets both pods."""
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster = workers(120)
    for name in ("fast-1", "fast-2"):
        cluster.node(name, labels={ZONE: "a", "disk": "ssd"})
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": affinity}})
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_sampling"])
    all_scored = {"default-scheduler": DEFAULT_PROFILE.__class__(percentage_of_nodes=100)}
    assert predicted(cluster, profiles=all_scored).restart_helps is True


def test_an_extender_that_scores_makes_it_unknown() -> None:
    extender = {"urlPrefix": "http://127.0.0.1:8888", "prioritizeVerb": "prioritize", "weight": 1}
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "extenders": [extender]}
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    found = predicted(cluster, profiles=profiles_of(config, ""))
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_extender"])


def test_a_collapsed_zone_has_precedence_over_an_even_distribution_over_nodes() -> None:
    cluster = ClusterBuilder()
    for name, zone in (("worker-1", "a"), ("worker-2", "a"), ("worker-3", "a"), ("worker-4", "b")):
        cluster.node(name, labels={ZONE: zone})
    # The replicas are even over the nodes already, and no restart makes that better.
    cluster.deployment("web", ["worker-1", "worker-2", "worker-3"])
    found = predicted(cluster, keys=(HOST, ZONE))
    assert found.restart_helps is True and set(found.expected[ZONE]) == {"a", "b"} and all(found.expected[ZONE].values())


@pytest.mark.parametrize(
    ("surge", "unavailable", "first"),
    # The controller creates additional pods before it removes old ones.
    [(1, 1, [1, -1]), (1, 0, [1, -1]), (0, 1, [-1, 1]), (2, 1, [1, 1, -1])],
)
def test_additional_pods_are_created_before_old_ones_are_removed(surge: int, unavailable: int, first: list[int]) -> None:
    cluster = workers(3)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    workload = cluster.deployment("web", ["worker-1"] * 4, strategy=strategy)
    snapshot = cluster.snapshot()
    restart = RestartSimulation(
        workload,
        snapshot,
        NextPods(workload, snapshot, ClusterState.of(snapshot)),
        tuple(snapshot.nodes),
        Topology(snapshot.nodes),
        [HOST],
        max_surge=surge,
        accept_unknown=False,
    ).run()
    assert (len(restart.nodes), restart.stuck) == (4, None)
    assert [change.amount for change in restart.cluster_state.changes][: len(first)] == first


def container(cpu: str) -> Json:
    return {"name": "m", "image": "web", "resources": {"requests": {"cpu": cpu, "memory": f"{cpu}Gi"}}}


def sized(cpu: str) -> Json:
    return {"cpu": cpu, "memory": f"{cpu}Gi", "pods": "110"}


WITHOUT_DEFAULTS = profiles_of(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": []}}],
            }
        ],
    },
    "",
)


def preferring(**weights: int) -> Json:
    """A preferred node affinity with a weight for each value of the label ``disk``."""
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}}
        for disk, weight in weights.items()
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_the_scheduler_may_choose_a_node_that_is_not_eligible() -> None:
    """The node arm is empty, and the scheduler does not compare the platform with that of the image."""
    cluster = ClusterBuilder()
    for name, arch, cpu in (("worker-1", "amd64", "8"), ("worker-2", "amd64", "8"), ("arm", "arm64", "64")):
        cluster.node(name, labels={"kubernetes.io/arch": arch}, allocatable=sized(cpu))
    for name in ("worker-1", "worker-2"):
        cluster.pod(f"filler-{name}", name, labels={"app": "other"}, template={"spec": {"containers": [container("3")]}})
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [container("1")]}})
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["not_eligible"]) and "choose arm," in found.blockers[0].reason.text
    cluster.nodes[2] = replace(cluster.nodes[2], spec=replace(cluster.nodes[2].spec, unschedulable=True))
    assert predicted(cluster).restart_helps is True


def test_searches_of_two_pods_may_find_the_same_nodes() -> None:
    """One of 401 nodes is preferred. If other pods are placed in between, both searches may find it."""
    cluster = workers(400)
    cluster.node("fast", labels={ZONE: "a", "disk": "ssd"})
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": preferring(ssd=100)}})
    found = predicted(cluster, profiles=WITHOUT_DEFAULTS)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_sampling"])


def test_more_simulations_find_a_result_that_is_possible_in_few_searches() -> None:
    """One of 103 nodes is preferred, and the scheduler scores 100: nearly all searches find it, and then both pods are on it."""
    cluster = workers(102)
    cluster.node("fast", labels={ZONE: "a", "disk": "ssd"})
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": preferring(ssd=100)}})
    found = predicted(cluster, profiles=WITHOUT_DEFAULTS)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_sampling"])
    simulations = int(found.blockers[0].reason.text.split(" of ")[1].split()[0])
    assert DRAWS < simulations <= MAX_DRAWS


def where_old_pods_decide() -> ClusterBuilder:
    """If old pods use worker-1 until the rollout has ended, all new pods are placed on worker-2."""
    constraint = {**OWN, "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    cluster = ClusterBuilder()
    for name in ("worker-1", "worker-2"):
        cluster.node(name, labels={ZONE: "a"}, allocatable=sized("8"))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = {"spec": {"topologySpreadConstraints": [constraint], "containers": [container("1")]}}
    cluster.deployment("web", ["worker-1"] * 4, template=template, strategy=strategy)
    return cluster


def test_old_pods_may_use_their_nodes_until_the_rollout_has_ended() -> None:
    found = predicted(where_old_pods_decide())
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_termination"])
    assert found.blockers[0].reason.text == "it helps only if terminating pods have ended one step of the rollout later at the latest"


def test_the_scores_of_one_pod_may_be_used_for_the_next_one() -> None:
    """The first pod fills worker-1. In its ranking worker-3 is next, and with new scores it is worker-2, in the other zone."""
    cluster = ClusterBuilder()
    for name, zone, disk, cpu in (("1", "a", "first", "2"), ("2", "b", "second", "20"), ("3", "a", "third", "20"), ("4", "a", "none", "4")):
        cluster.node(f"worker-{name}", labels={ZONE: zone, "disk": disk}, allocatable=sized(cpu))
    for node, cpu in (("worker-1", "0.5"), ("worker-2", "6"), ("worker-4", "1")):
        cluster.pod(f"filler-{node}", node, labels={"app": "other"}, template={"spec": {"containers": [container(cpu)]}})
    template = {"spec": {"affinity": preferring(first=100, second=50, third=40), "containers": [container("1")]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    cluster.deployment("web", ["worker-4"] * 2, template=template, strategy=strategy)
    found = predicted(cluster, keys=(ZONE,), profiles=WITHOUT_DEFAULTS)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_ties"])
    assert "the scores of one pod" in found.blockers[0].reason.text
    assert predicted(cluster, keys=(ZONE,)).restart_helps is not None, "pods with default constraints get new scores"


def skewed(cluster: ClusterBuilder, *, keys: tuple[str, ...] = (HOST,)) -> Prediction:
    snapshot = cluster.snapshot()
    found = WorkloadChecker(snapshot, CheckOptions(topology_keys=keys, max_skew=1)).check(snapshot.workloads()[0]).prediction
    assert found is not None
    return found


def test_new_pods_become_ready_at_the_same_time_or_one_after_the_other() -> None:
    """Old pods that are there a step longer count for the constraint, and worker-1 then gets no pod."""
    cluster = ClusterBuilder()
    for name, cpu in (("worker-1", "8"), ("worker-2", "8"), ("worker-3", "4")):
        cluster.node(name, labels={ZONE: name}, allocatable=sized(cpu))
    cluster.pod("filler", "worker-1", labels={"app": "other"}, template={"spec": {"containers": [container("4.8")]}})
    constraint = {**OWN, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    template = {"spec": {"containers": [container("1")], "topologySpreadConstraints": [constraint]}}
    cluster.deployment("web", ["worker-1", "worker-2", "worker-2", "worker-1", "worker-2"], template=template)
    found = skewed(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_readiness"])
    assert "ready at the same time" in found.blockers[0].reason.text


SOFT = [{"key": key, "effect": "PreferNoSchedule"} for key in ("one", "two")]


def full(cluster: ClusterBuilder, name: str, zone: str, pods: int, cpu: str, *, taints: list[Json] | None = None) -> None:
    """A node for few pods."""
    allocatable = {"cpu": cpu, "memory": "4Gi", "pods": str(pods)}
    cluster.node(name, labels={ZONE: zone}, allocatable=allocatable, taints=taints or [])


def test_each_old_pod_may_end_at_another_time() -> None:
    """The real scheduler used worker-3 when the pods of worker-1 needed more time to end than those of worker-2."""
    cluster = ClusterBuilder()
    full(cluster, "worker-1", "a", 4, "4")
    full(cluster, "worker-2", "b", 2, "2", taints=SOFT)
    full(cluster, "worker-3", "a", 2, "1")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = {"spec": {"containers": [container("0.2")]}}
    cluster.deployment("web", [*["worker-1"] * 3, *["worker-2"] * 2], template=template, strategy=strategy)
    found = skewed(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_termination"])
    assert "when each terminating pod ends" in found.blockers[0].reason.text


def test_the_order_in_which_old_pods_are_removed_may_decide() -> None:
    """The old pods are of the same age. With the real controller manager they were removed in either order."""
    cluster = ClusterBuilder()
    for number, (zone, pods, cpu, taints) in enumerate(
        [("a", 2, "2", SOFT), ("b", 1, "2", []), ("c", 10, "1", SOFT), ("b", 2, "2", []), ("c", 1, "2", [])]
    ):
        full(cluster, f"worker-{number}", zone, pods, cpu, taints=taints)
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": HOST, "operator": "In", "values": [f"worker-{number}"]}]}}
        for number, weight in enumerate((1, 1, 20, 20, 20))
    ]
    spec = {
        "containers": [container("0.2")],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        "topologySpreadConstraints": [{**OWN, "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    }
    cluster.deployment("web", ["worker-2", "worker-0", "worker-2"], template={"spec": spec})
    found = skewed(cluster, keys=(ZONE, HOST))
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_removal_order"])


def test_an_old_pod_may_be_removed_before_all_new_pods_of_a_step_are_placed() -> None:
    """Both were seen with the real controllers. Only if an old pod is removed first, the second new pod is on worker-1."""
    cluster = ClusterBuilder()
    for name, cpu in (("worker-1", "32"), ("worker-2", "8")):
        cluster.node(name, labels={"rack": name}, allocatable=sized(cpu))
    constraint = {**OWN, "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    template = {"spec": {"containers": [container("1")], "topologySpreadConstraints": [constraint]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
    cluster.deployment("web", ["worker-1"] * 2, template=template, strategy=strategy)
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (None, ["depends_on_removal_order"])
    assert "before or after all new pods" in found.blockers[0].reason.text


@pytest.mark.parametrize(("policy", "expected"), [("OrderedReady", (None, ["waits_for_ready_pod"])), ("Parallel", (True, []))])
def test_a_stateful_set_waits_until_all_pods_are_ready(policy: str, expected: tuple[bool | None, list[str]]) -> None:
    cluster = workers(3)
    cluster.stateful_set("web", ["worker-1"] * 3, podManagementPolicy=policy)
    cluster.pods[0] = replace(cluster.pods[0], status=replace(cluster.pods[0].status, conditions=()))
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == expected


TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:05Z"}


def beside_a_terminating_pod() -> ClusterBuilder:
    """Two nodes; a pod that is terminating uses most of worker-2."""
    cluster = ClusterBuilder()
    for name, cpu in (("worker-1", "6"), ("worker-2", "4")):
        cluster.node(name, labels={ZONE: name}, allocatable=sized(cpu))
    cluster.pod("other", "worker-2", labels={"app": "other"}, template={"spec": {"containers": [container("3.5")]}}, **TERMINATING)
    return cluster


def test_a_pod_that_is_already_terminating_leaves_its_node_to_a_new_pod() -> None:
    """With the real scheduler, the new pod was pending until the other one had ended. So the result is the same before its end."""
    cluster = beside_a_terminating_pod()
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [container("2.5")]}})
    found = predicted(cluster)
    assert (found.restart_helps, found.awaits_ends) == (True, False)


def test_a_stateful_set_does_not_wait_for_terminating_pods_of_others() -> None:
    """The end of its own pod frees enough capacity of worker-1, so the new pod does not need worker-2."""
    cluster = beside_a_terminating_pod()
    cluster.stateful_set("web", ["worker-1"] * 2, template={"spec": {"containers": [container("2.5")]}})
    found = predicted(cluster)
    assert (found.restart_helps, found.awaits_ends) == (True, True)


def test_a_prediction_that_is_unknown_after_the_end_of_the_terminating_pods_has_the_reason_of_then() -> None:
    cluster = where_old_pods_decide()
    cluster.pod("other", "worker-2", labels={"app": "other"}, template={"spec": {"containers": [container("6")]}}, **TERMINATING)
    found = predicted(cluster)
    cluster.pods = [pod for pod in cluster.pods if not pod.terminating]
    assert found == predicted(cluster) and found.expected and codes(found) == ["depends_on_termination"]


def test_a_terminating_pod_on_a_lost_node_does_not_end() -> None:
    cluster = ClusterBuilder()
    cluster.node("worker-1", labels={ZONE: "a"}, allocatable=sized("4"))
    cluster.node("worker-2", labels={ZONE: "b"}, allocatable=sized("4"), ready=False)
    cluster.pod("other", "worker-2", labels={"app": "other"}, template={"spec": {"containers": [container("3.5")]}}, **TERMINATING)
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [container("1.5")]}})
    assert ending_pods(ClusterState.of(cluster.snapshot())) == []


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Deployment", {}, True),
        ("Deployment", {"strategy": {"type": "Recreate"}}, None),
        ("StatefulSet", {"podManagementPolicy": "Parallel"}, None),
        ("StatefulSet", {"podManagementPolicy": "Parallel", "updateStrategy": {"rollingUpdate": {"partition": 4}}}, False),
    ],
)
def test_a_controller_waits_for_a_pod_on_a_lost_node(kind: str, spec: Json, expected: bool | None) -> None:
    cluster = workers(3)
    cluster.node("lost", labels={ZONE: "lost"}, ready=False, taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}])
    make = cluster.deployment if kind == "Deployment" else cluster.stateful_set
    make("web", ["worker-1", "worker-1", "worker-1", "lost"], **spec)
    found = skewed(cluster)
    assert found.restart_helps is expected
    assert ("waits_for_lost_pod" in codes(found)) is (expected is None)


@pytest.mark.parametrize(("sizes_mib", "expected"), [((40, 412), (True, [])), ((40, 900), (None, ["image_size"]))])
def test_nodes_report_different_sizes_of_an_image(sizes_mib: tuple[int, int], expected: tuple[bool | None, list[str]]) -> None:
    """worker-1 and worker-2 have the image. If it is large, its score outweighs the free capacity of the other nodes."""
    cluster = ClusterBuilder()
    for number, cpu in enumerate((8, 8, 10, 10, 10), start=1):
        cluster.node(f"worker-{number}", allocatable=sized(str(cpu)))
    for number, mib in enumerate(sizes_mib):
        status = cluster.nodes[number].status
        image = ContainerImage(names=("registry/app:latest",), size_bytes=mib << 20)
        cluster.nodes[number] = replace(cluster.nodes[number], status=replace(status, images=(image,)))
    one = {**container("1"), "image": "registry/app:latest"}
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [one]}})
    found = predicted(cluster, profiles=WITHOUT_DEFAULTS)
    assert (found.restart_helps, codes(found)) == expected


def test_a_paused_deployment_replaces_no_pod() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 2, paused=True)
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (False, ["paused"])


def test_pods_that_are_removed_together_are_ranked_once() -> None:
    """worker-3 loses three pods at the same time. If the pods left were counted after each of them, one would be of worker-2."""
    cluster = ClusterBuilder()
    for name, cpu, used in (("worker-1", "8", "0"), ("worker-2", "8", "3.5"), ("worker-3", "4", "2.25")):
        cluster.node(name, labels={ZONE: "a"}, allocatable=sized(cpu))
        cluster.pod(f"filler-{name}", name, labels={"app": "other"}, template={"spec": {"containers": [container(used)]}})
    constraint = {**OWN, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    template = {"spec": {"containers": [container("0.5")], "topologySpreadConstraints": [constraint]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 3}}
    cluster.deployment("web", [*["worker-3"] * 3, *["worker-2"] * 2], template=template, strategy=strategy)
    assert skewed(cluster).expected == {HOST: {"worker-1": 3, "worker-2": 1, "worker-3": 1}}


HARD_CONSTRAINT: Json = {"topologySpreadConstraints": [{**OWN, "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}
HARD_ANTI_AFFINITY: Json = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{**OWN, "topologyKey": "rack"}]}}
}


@pytest.mark.parametrize(("rules", "keys"), [(HARD_CONSTRAINT, (ZONE,)), (HARD_ANTI_AFFINITY, (ZONE,)), ({}, ("rack", ZONE))])
def test_a_first_node_that_is_not_the_least_loaded_one_may_be_the_only_way(rules: Json, keys: tuple[str, ...]) -> None:
    """Rack 1 is in both zones. If the first pod is on worker-1, the second one can only be on worker-2, in the same zone."""
    cluster = ClusterBuilder()
    for name, zone, rack, cpu in (("worker-1", "a", "1", "4"), ("worker-2", "a", "2", "32"), ("worker-3", "b", "1", "64")):
        cluster.node(name, labels={ZONE: zone, "rack": rack}, allocatable=sized(cpu))
    template = {"spec": {**rules, "containers": [container("1")]}}
    cluster.deployment("web", ["worker-1", "worker-2"], template=template, strategy={"type": "Recreate"})
    found = predicted(cluster, keys=keys)
    assert (found.restart_helps, found.expected[ZONE]) == (True, {"a": 1, "b": 1})


def test_a_pod_without_a_node_that_a_partition_keeps_is_no_replica() -> None:
    cluster = workers(4)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    cluster.stateful_set("web", ["", *["worker-1"] * 3], updateStrategy=strategy, podManagementPolicy="Parallel")
    found = predicted(cluster)
    assert found.restart_helps is True and sum(found.expected[HOST].values()) == 3


def test_a_restart_that_reaches_nothing_better_has_a_reason() -> None:
    partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    cluster = workers(2)
    cluster.stateful_set("web", ["worker-1"] * 2, updateStrategy=partition)
    found = predicted(cluster)
    assert (found.restart_helps, codes(found)) == (False, ["no_better_spread"])


def test_half_of_the_simulations_keep_one_order_of_nodes_with_equal_scores() -> None:
    names = tuple(f"worker-{number}" for number in range(20))
    keeping, choosing = (next(one for one in COMBINATIONS if one.keeps_order is keeps) for keeps in (True, False))
    kept = Draw("seed", SearchOrder(names[::-1]), None, keeping)
    assert {kept.choose(names) for _ in range(20)} == {"worker-19"} and not kept.is_certain
    free = Draw("seed", SearchOrder(names), None, choosing)
    assert len({free.choose(names) for _ in range(20)}) > 5
    certain = Draw("seed", SearchOrder(names), None, choosing)
    assert certain.choose(names[:1]) == "worker-0" and certain.is_certain
    assert sum(one.keeps_order for one in COMBINATIONS) == DRAWS / 2


def test_each_choice_differs_from_the_others() -> None:
    """Otherwise the reason for different results could name the wrong one."""
    steady = [one for one in COMBINATIONS if one.ends != AT_RANDOM]
    choices = [field for field in Choices._fields if field != "ends"]
    values = {field: tuple(getattr(one, field) for one in steady) for field in choices}
    opposites = [tuple(not value for value in found) for found in values.values()]
    assert len({*values.values(), *opposites}) == 2 * len(choices)
    assert {(one.keeps_order, one.ends) for one in COMBINATIONS} == {
        (keeps, ends) for keeps in (True, False) for ends in (*ENDS, AT_RANDOM)
    }


def test_a_check_can_be_repeated() -> None:
    cluster = workers(9)
    workload = cluster.deployment("web", ["worker-1"] * 2)
    names = tuple(node.name for node in cluster.nodes)

    def choices() -> list[list[str]]:
        draws = Draws(cluster.snapshot())
        return [[draw.choose(names) for _ in range(4)] for draw in (draws.of(workload, number) for number in range(DRAWS))]

    assert choices() == choices()
