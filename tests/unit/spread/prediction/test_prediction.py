# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The prediction of a restart: free capacity, strategies, and what is unknown."""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.next_pods import NextPods
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.prediction.restart_simulation import RestartSimulation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology

from tests.unit.support.cluster import ClusterBuilder, workers
from tests.unit.support.objects import CSI, LOCAL, claim, ephemeral, storage_class, stored, volume

ZONE = "topology.kubernetes.io/zone"
BIG = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}}


def rolling(unavailable: int | str, surge: int | str) -> dict[str, t.Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def predict(cluster: ClusterBuilder, **options: t.Any) -> WorkloadReport:
    lines = check_spread(cluster.snapshot(**options.pop("snapshot", {})), CheckOptions(**options)).workloads
    return next(line for line in lines if line.workload.metadata.name in ("web", "db"))


def helps(cluster: ClusterBuilder, **options: t.Any) -> tuple[bool | str, list[tuple[str, int]]]:
    prediction = predict(cluster, **options).prediction
    assert prediction is not None
    return prediction.restart_helps, [(blocker.reason.code, blocker.nodes) for blocker in prediction.blockers]


def fill(cluster: ClusterBuilder, *nodes: str, cpu: str = "3500m") -> None:
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    for node in nodes:
        cluster.pod(f"filler-{node}", node, template={"metadata": {}, "spec": spec})


def test_free_capacity_on_another_node_is_enough():
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    line = predict(cluster)
    assert line.prediction is not None and line.prediction.restart_helps is True and not line.prediction.blockers
    assert line.prediction.feasible_domains == {"kubernetes.io/hostname": ["worker-1", "worker-2", "worker-3"]}
    assert line.restartable


def test_full_nodes_are_counted_as_blockers():
    cluster = workers(3)
    cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]}})
    fill(cluster, "worker-2", "worker-3")
    assert helps(cluster) == (False, [("insufficient_cpu", 2), ("untolerated_taint", 1)])


def test_without_capacity_for_the_surge_pod_the_rollout_would_not_end():
    cluster = workers(2)
    cluster.deployment(
        "web", ["worker-1", "worker-1"], template={"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}}
    )
    fill(cluster, "worker-2")
    assert helps(cluster)[0] is False


def test_a_strategy_that_takes_a_pod_away_first_frees_only_the_same_node():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, strategy=rolling(1, 0))
    fill(cluster, "worker-2", cpu="4")
    assert helps(cluster)[0] is False


def test_recreate_helps_if_there_is_free_capacity_but_is_not_restartable():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, strategy={"type": "Recreate"})
    line = predict(cluster)
    assert line.prediction is not None and line.prediction.restart_helps is True
    assert str(line.refusal).startswith("downtime") and not line.restartable


def test_a_shared_claim_of_one_writer_never_helps():
    cluster = workers(2)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"volumes": volumes}})
    cluster.claim("data", "ReadWriteOnce")
    assert helps(cluster) == (False, [("shared_rwo_volume", 0)])


def test_the_prediction_and_the_refusal_of_a_restart_have_the_same_text():
    cluster = workers(2)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"volumes": volumes}})
    cluster.claim("data", "ReadWriteOnce")
    report = predict(cluster)
    assert report.prediction is not None
    assert [blocker.reason for blocker in report.prediction.blockers] == [report.refusal]


def test_a_quota_that_does_not_allow_the_surge_pod():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.quota("tight", {"pods": "2"}, {"pods": "2"})
    assert helps(cluster) == (False, [("quota", 0)])


def test_a_quota_does_not_matter_where_the_strategy_can_do_without_surge():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, strategy=rolling(1, 1))
    cluster.quota("tight", {"pods": "2"}, {"pods": "2"})
    assert helps(cluster)[0] is True


def test_an_autoscaler_in_motion_comes_first():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.autoscaler("web", 1, 9, 5)
    assert helps(cluster) == (False, [("autoscaling", 0)])


def test_what_cannot_be_judged_is_unknown_and_never_a_silent_yes():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"schedulerName": "of-somebody-else"}})
    restart_helps, blockers = helps(cluster)
    assert restart_helps is None and blockers
    assert not predict(cluster).restartable


def web_terms(topology_key: str) -> dict[str, t.Any]:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": topology_key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def test_pods_that_seek_each_other_stay_together():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": {"podAffinity": web_terms("kubernetes.io/hostname")}}})
    assert helps(cluster) == (False, [("pod_affinity", 1)])


@pytest.mark.parametrize(("strategy", "helped"), [(rolling(1, 0), True), (rolling(0, 1), False)])
def test_a_pod_that_leaves_opens_all_nodes_that_it_kept_closed(strategy: dict[str, t.Any], helped: bool):
    # The old pods are on a node that has been cordoned since; in their zone only worker-2 is open, once both have left.
    cluster = ClusterBuilder()
    cluster.node("worker-1", labels={ZONE: "a"}, unschedulable=True)
    cluster.node("worker-2", labels={ZONE: "a"})
    cluster.node("worker-3", labels={ZONE: "b"})
    apart = {"spec": {"affinity": {"podAntiAffinity": web_terms(ZONE)}}}
    cluster.deployment("web", ["worker-1"] * 2, strategy=strategy, template=apart)
    assert helps(cluster)[0] is helped


def test_even_if_something_is_unknown_a_full_cluster_is_a_no():
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": affinity}})
    fill(cluster, "worker-2", cpu="4")
    assert helps(cluster)[0] is False


def with_claims(asked: str, *claims: t.Any, classes: t.Any = (LOCAL, CSI)) -> tuple[ClusterBuilder, dict[str, t.Any]]:
    """A StatefulSet of two replicas on one node, whose claims are of the class ``asked``; local volumes are on worker-1."""
    cluster = workers(2)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": asked}
    cluster.stateful_set("db", ["worker-1"] * 2, volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": spec}])
    cluster.claims.extend(claims)
    return cluster, {"storage": stored(volume("here", on="worker-1"), volume("anywhere"), classes=classes)}


def of_replica(ordinal: int, to: str) -> t.Any:
    return claim(f"data-db-{ordinal}", to=to, metadata={"namespace": "app"})


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        (("here", "here"), (False, [("volume_node_affinity", 1)])),
        (("here", "anywhere"), (True, [])),
        (("anywhere", "here"), (True, [])),
        (("anywhere", "anywhere"), (True, [])),
    ],
)
def test_each_replica_of_a_stateful_set_goes_where_its_own_claims_let_it(volumes: tuple[str, str], expected: t.Any) -> None:
    cluster, snapshot = with_claims("local", *(of_replica(number, name) for number, name in enumerate(volumes)))
    assert helps(cluster, snapshot=snapshot) == expected


def test_claims_that_a_stateful_set_will_make_are_judged_by_their_class():
    cluster, snapshot = with_claims("csi")
    assert helps(cluster, snapshot=snapshot) == (True, [])
    cluster, snapshot = with_claims("now", of_replica(1, "anywhere"), classes=(storage_class("now", mode="Immediate"),))
    assert helps(cluster, snapshot=snapshot) == (None, [("claim_to_be_bound", 2)])


@pytest.mark.parametrize(("asked", "expected"), [("csi", (True, [])), ("local", (None, [("volume_choice", 1)]))])
def test_replicas_that_compete_for_volumes_are_unknown(asked: str, expected: t.Any) -> None:
    cluster, snapshot = with_claims("csi")
    spec = {"containers": [{"name": "main"}], "volumes": ephemeral(storageClassName=asked)}
    cluster.deployment("web", ["worker-1"] * 2, template={"spec": spec})
    cluster.stateful_sets.clear()
    assert helps(cluster, snapshot=snapshot) == expected


def test_claims_without_what_was_read_of_volumes_are_unknown():
    cluster, _snapshot = with_claims("local")
    assert helps(cluster) == (None, [("unreadable", 2)])


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"defaultRequest": {"memory": "1Gi"}}, True),
        ({"defaultRequest": {"memory": "20Gi"}}, False),
        ({"default": {"memory": "20Gi"}, "defaultRequest": {"memory": "20Gi"}}, False),
        ({"defaultRequest": {"cpu": "100"}}, True),
    ],
)
def test_requests_that_a_limit_range_adds_are_not_overlooked(limit, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.limit_range(**limit)
    assert helps(cluster)[0] == expected


def test_with_unreadable_pods_restart_helps_is_unknown():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    assert helps(cluster, snapshot={"complete_pods": False}) == (None, [("pods_not_readable", 2)])


def test_a_preference_that_outweighs_the_spread_makes_a_restart_useless_with_advice():
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster = ClusterBuilder()
    cluster.node("fast", labels={"disk": "ssd"})
    cluster.node("slow")
    cluster.deployment("web", ["fast", "fast"], template={"spec": {"affinity": affinity}})
    line = predict(cluster)
    assert line.prediction is not None and line.prediction.restart_helps is False
    assert [blocker.reason.code for blocker in line.prediction.blockers] == ["scoring_does_not_spread"]
    assert line.prediction.expected == {HOST: {"fast": 2, "slow": 0}}
    assert {advice.reason.code for advice in line.advice} >= {"preference_outweighs", "scoring_does_not_spread"}
    cluster.node("fast-too", labels={"disk": "ssd"})
    assert helps(cluster)[0] is True


def test_stateful_sets_are_replaced_one_ordinal_at_a_time():
    cluster = workers(2)
    cluster.stateful_set("db", ["worker-1"] * 2, template=None)
    assert helps(cluster)[0] is True
    fill(cluster, "worker-2", cpu="4")
    assert helps(cluster)[0] is False


@pytest.mark.parametrize("start", [0, 1, 5])
@pytest.mark.parametrize(
    ("partition", "on_other_node"),
    [pytest.param(0, 1, id="all move"), pytest.param(2, 1, id="the last moves"), pytest.param(3, 0, id="none moves")],
)
def test_the_partition_counts_replicas_from_the_first_ordinal(start, partition, on_other_node):
    cluster = workers(2)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    workload = cluster.stateful_set("db", ["worker-1"] * 3, updateStrategy=update, ordinals={"start": start})
    assert helps(cluster)[0] is bool(on_other_node)
    restart = simulate(cluster, workload, max_surge=0)
    assert (restart.stuck, len(restart.nodes), restart.nodes.count("worker-2")) == (None, 3, on_other_node)


@pytest.mark.parametrize("start", [0, 4])
def test_a_replaced_ordinal_frees_its_capacity_for_its_successor(start):
    cluster = ClusterBuilder()
    cluster.node("worker-1", allocatable={"cpu": "6", "pods": "110"})
    cluster.node("worker-2", allocatable={"cpu": "3", "pods": "110"})
    cluster.stateful_set("db", ["worker-1"] * 2, template=BIG, ordinals={"start": start})
    assert helps(cluster) == (True, [])


@pytest.mark.parametrize(("max_skew", "expected"), [(1, True), (2, True)])
def test_a_skewed_workload_is_helped_by_a_smaller_skew(max_skew, expected):
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 4 + ["worker-2"])
    assert helps(cluster, max_skew=max_skew)[0] is expected


def test_zones_need_free_capacity_in_the_other_zone():
    cluster = workers(4)
    cluster.deployment("web", ["worker-1", "worker-3"])
    fill(cluster, "worker-2", "worker-4", cpu="4")
    assert helps(cluster, topology_keys=[ZONE])[0] is False


HOST = "kubernetes.io/hostname"


def hard(key: str = HOST, **more: t.Any) -> dict[str, t.Any]:
    """A template with one hard constraint over the workload's own pods."""
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"spec": {"topologySpreadConstraints": [constraint | more]}}


class TestDeclaredConstraints:
    """Workloads with DoNotSchedule that came to lie on one node while the others were cordoned."""

    @pytest.mark.parametrize("keys", [[], ["pod-template-hash"]])
    @pytest.mark.parametrize("strategy", [rolling("25%", "25%"), rolling(1, 0), rolling(0, 3), rolling(2, 2), {"type": "Recreate"}])
    @pytest.mark.parametrize("replicas", [2, 3, 5])
    def test_a_restart_spreads_them(self, replicas, strategy, keys):
        cluster = workers(3)
        workload = cluster.deployment("web", ["worker-1"] * replicas, strategy=strategy, template=hard(matchLabelKeys=keys))
        assert helps(cluster) == (True, [])
        assert max(Counter(simulate(cluster, workload).nodes).values()) <= -(-replicas // 3)

    @pytest.mark.parametrize(("keys", "expected"), [([], False), (["pod-template-hash"], True)])
    def test_old_pods_block_the_new_ones_unless_the_revision_counts_alone(self, keys, expected):
        # The control plane's node is closed to the pods and yet a domain, so that no node may have more than one pod.
        cluster = workers(2)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        cluster.deployment("web", ["worker-1"] * 2, strategy=rolling(0, 1), template=hard(matchLabelKeys=keys))
        assert helps(cluster)[0] is expected

    @pytest.mark.parametrize("keys", [[], ["pod-template-hash"]])
    def test_more_replicas_than_a_closed_domain_allows_are_blocked(self, keys):
        cluster = workers(2)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        template = hard(matchLabelKeys=keys)
        cluster.deployment("web", ["worker-1"] * 3, template=template)
        assert helps(cluster) == (False, [("topology_spread", 2), ("untolerated_taint", 1)])
        template["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = "Honor"
        cluster.deployments.clear()
        cluster.pods.clear()
        cluster.deployment("web", ["worker-1"] * 3, template=template)
        assert helps(cluster) == (True, [])

    def test_full_nodes_are_domains_nevertheless(self):
        cluster = workers(3)
        cluster.deployment("web", ["worker-1"] * 2, template=hard())
        fill(cluster, "worker-2", "worker-3", cpu="4")
        assert helps(cluster) == (False, [("insufficient_cpu", 2), ("topology_spread", 1)])

    @pytest.mark.parametrize(("min_domains", "expected"), [(2, True), (3, False)])
    def test_too_few_domains(self, min_domains, expected):
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 3, template=hard(minDomains=min_domains, matchLabelKeys=["pod-template-hash"]))
        assert helps(cluster)[0] is expected

    def test_nodes_without_the_key_are_closed(self):
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 2, template=hard("rack"))
        assert helps(cluster) == (False, [("topology_spread_label", 2)])

    def test_a_second_pod_waits_until_the_first_has_made_way_for_it(self):
        # Both new pods are created together, and only one fits before the old ones end.
        cluster = workers(2)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        cluster.deployment("web", ["worker-1"] * 2, strategy=rolling(1, 1), template=hard())
        assert helps(cluster)[0] is True

    @pytest.mark.parametrize(("keys", "stuck"), [([], True), (["controller-revision-hash"], False)])
    def test_replicas_that_a_partition_keeps_are_of_another_revision(self, keys, stuck):
        cluster = workers(2)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        template = hard(labelSelector={"matchLabels": {"app": "db"}}, matchLabelKeys=keys)
        update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        workload = cluster.stateful_set("db", ["worker-1"] * 3, template=template, updateStrategy=update)
        assert (simulate(cluster, workload).stuck is not None) is stuck

    @pytest.mark.parametrize(
        ("keys", "stuck"), [([], True), (["apps.kubernetes.io/pod-index"], False), (["statefulset.kubernetes.io/pod-name"], False)]
    )
    def test_replicas_of_a_stateful_set_are_told_apart_by_their_labels(self, keys, stuck):
        cluster = workers(2)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        template = hard(labelSelector={"matchLabels": {"app": "db"}}, matchLabelKeys=keys)
        workload = cluster.stateful_set("db", ["worker-1"] * 3, template=template, ordinals={"start": 7})
        assert (simulate(cluster, workload).stuck is not None) is stuck

    def test_a_selector_over_one_replica_is_for_that_one_only(self):
        # Only the first replica must keep away from the other pod.
        selector = {"matchExpressions": [{"key": "apps.kubernetes.io/pod-index", "operator": "In", "values": ["0"]}]}
        cluster = workers(2)
        workload = cluster.stateful_set("db", ["worker-1"] * 2, template=hard(labelSelector=selector))
        cluster.pod("other-0", "worker-1", labels={"apps.kubernetes.io/pod-index": "0"})
        assert simulate(cluster, workload).nodes == ("worker-2", "worker-2")


def simulate(cluster: ClusterBuilder, workload: t.Any, *, key: str = HOST, max_surge: int = 1) -> t.Any:
    """A restart over all nodes."""
    snapshot = cluster.snapshot()
    topology = Topology(snapshot.nodes)
    return RestartSimulation(
        workload,
        snapshot,
        NextPods(workload, snapshot, ClusterState.of(snapshot)),
        tuple(snapshot.nodes),
        topology,
        [key],
        max_surge=max_surge,
        accept_unknown=False,
    ).run()


def test_a_pod_on_a_node_without_the_key_is_in_no_domain():
    cluster = ClusterBuilder()
    for number in (1, 2):
        cluster.node(f"worker-{number}", labels={"room": f"r{number}"})
    cluster.node("bare")
    workload = cluster.deployment("web", ["worker-1"] * 2)
    restart = simulate(cluster, workload, key="room")
    assert sorted(restart.nodes) == ["worker-1", "worker-2"]
    (line,) = check_spread(cluster.snapshot(), CheckOptions(topology_keys=["room"])).workloads
    assert line.prediction is not None and line.prediction.restart_helps is False
    assert [blocker.reason.code for blocker in line.prediction.blockers] == ["scoring_does_not_spread", "no_domain"]
    assert line.prediction.expected == {"room": {"r1": 0, "r2": 1}}, "the system default constraint uses each of the empty nodes"


class TestAdvice:
    """The advice for the pod template."""

    def advice(self, cluster: ClusterBuilder) -> list[str]:
        return [advice.reason.code for advice in predict(cluster).advice]

    def test_no_rule_at_all(self):
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 2)
        assert self.advice(cluster) == ["no_spreading_rule"]

    @pytest.mark.parametrize(("keys", "expected"), [([], ["old_pods_count"]), (["pod-template-hash"], [])])
    def test_a_constraint_that_counts_old_pods(self, keys, expected):
        constraint = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": keys,
        }
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"topologySpreadConstraints": [constraint]}})
        assert self.advice(cluster) == expected

    @pytest.mark.parametrize(("app", "expected"), [("nginx", ["anti_affinity_misses_itself"]), ("web", [])])
    def test_an_anti_affinity_that_selects_other_pods(self, app, expected):
        term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}}
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"affinity": affinity}}, strategy={"type": "Recreate"})
        assert self.advice(cluster) == expected
