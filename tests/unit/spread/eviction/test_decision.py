# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The next pod to evict is the one whose replacement makes the distribution more even. Otherwise there is a reason for no eviction."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodSpec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.well_known import HOSTNAME, ZONE
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import WorkloadChecker
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.decision import (
    EvictionDecision,
    decide_eviction,
    planned_moves,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eviction.planner import EvictionPlanner, Move
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.actions import EVICT, REFUSED, SKIPPED, WAIT
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import (
    AUTO,
    EVICT_SURPLUS,
    ROLLOUT,
    RestartOptions,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.possible_states import PossibleState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.run_limits import RunLimits
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.strategy_choice import choose_strategy
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.skew_cost import skew_cost
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.topology.topology import Topology
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import (
    OUTCOME_ANNOTATION,
    PENDING,
    make_outcome,
    read_outcome,
)

from tests.unit.support.cluster import ClusterBuilder, Json, struct, workers
from tests.unit.support.objects import claim, stored, volume


def plan(line: WorkloadReport, snapshot: ClusterSnapshot, cluster_state: ClusterState, options: RestartOptions, first: Move) -> list[Move]:
    """The planned moves without limits."""
    planned = planned_moves(line, snapshot, PossibleState(cluster_state, RunLimits(options)), options, first, 0)
    assert planned.last is None
    return list(planned.moves)


NOW = 1_767_225_600.0
HOST = (HOSTNAME,)
Keys = tuple[str, ...]


def homes(*counts: int) -> list[str]:
    """So many replicas on worker-1, so many on worker-2, and so on."""
    return [f"worker-{number}" for number, count in enumerate(counts, start=1) for _replica in range(count)]


def line_of(cluster: ClusterBuilder, keys: Keys = HOST, max_skew: int | None = None, **read: t.Any) -> tuple[WorkloadReport, t.Any]:
    snapshot = cluster.snapshot(**read)
    options = CheckOptions(topology_keys=keys, max_skew=max_skew, predict=False)
    return WorkloadChecker(snapshot, options).check(snapshot.workloads()[0]), snapshot


def next_move(cluster: ClusterBuilder, keys: Keys = HOST, **read: t.Any) -> Move | Reason:
    line, snapshot = line_of(cluster, keys, **read)
    return EvictionPlanner(line, snapshot, ClusterState.of(snapshot), keys).next_move()


def mounting(pod: Pod, claim_name: str) -> Pod:
    """The pod with a volume ``data`` that is the claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    volumes = decode_json(PodSpec, encode_json({"volumes": [volume]})).volumes
    return replace(pod, spec=replace(pod.spec, volumes=volumes))


def decide(cluster: ClusterBuilder, *, keys: Keys = HOST, **options: t.Any) -> EvictionDecision:
    chosen = RestartOptions(**{"strategy": EVICT_SURPLUS, "topology_keys": keys, **options})
    line, snapshot = line_of(cluster, keys, chosen.max_skew)
    return decide_eviction(line, snapshot, ClusterState.of(snapshot), chosen, now_s=NOW)


def replicas_after(counts: tuple[int, ...], moves: Iterable[tuple[str, str]]) -> list[int]:
    """The numbers of replicas on the nodes after the moves, sorted."""
    found = Counter(homes(*counts))
    for source, target in moves:
        found[source] -= 1
        found[target] += 1
    return sorted(found.values())


@pytest.mark.parametrize(
    ("counts", "keys", "planned"),
    [
        ((3, 1, 1, 1), HOST, (("worker-1", "worker-2"),)),
        ((3, 1, 1, 0), HOST, (("worker-1", "worker-4"),)),
        ((2, 2, 2, 0), HOST, (("worker-1", "worker-4"),)),
        ((2, 2, 2, 2), HOST, ()),
        ((2, 2, 1, 1), HOST, ()),
        ((4, 4, 0, 0), HOST, (("worker-1", "worker-3"), ("worker-2", "worker-4"), ("worker-1", "worker-3"), ("worker-2", "worker-4"))),
        ((3, 0, 0, 0), HOST, (("worker-1", "worker-2"), ("worker-1", "worker-3"))),
        # zone a: worker-1 and worker-3, zone b: worker-2 and worker-4
        ((1, 1, 1, 1), (ZONE,), ()),
        ((2, 0, 2, 0), (ZONE,), (("worker-1", "worker-2"), ("worker-1", "worker-4"))),
        ((3, 0, 1, 0), (ZONE, HOSTNAME), (("worker-1", "worker-2"), ("worker-1", "worker-4"))),
        ((2, 1, 0, 1), (ZONE, HOSTNAME), (("worker-1", "worker-3"),)),
        # The first key is even, and stays so.
        ((2, 2, 0, 0), (ZONE, HOSTNAME), (("worker-1", "worker-3"), ("worker-2", "worker-4"))),
    ],
)
def test_a_plan_takes_from_the_fullest_domain_until_no_move_is_useful(
    counts: tuple[int, ...], keys: Keys, planned: tuple[tuple[str, str], ...]
) -> None:
    cluster = workers(4)
    cluster.deployment("web", homes(*counts))
    line, snapshot = line_of(cluster, keys)
    cluster_state = ClusterState.of(snapshot)
    first = EvictionPlanner(line, snapshot, cluster_state, keys).next_move()
    options = RestartOptions(strategy=EVICT_SURPLUS, topology_keys=keys, dry_run=True)
    found = [] if isinstance(first, Reason) else plan(line, snapshot, cluster_state, options, first)
    moves = [(move.pod.spec.node_name, move.node) for move in found]
    # Another one of the nodes with equal scores may be chosen.
    assert [source for source, _target in moves] == [source for source, _target in planned]
    assert replicas_after(counts, moves) == replicas_after(counts, planned)


def test_a_move_that_puts_all_replicas_into_one_zone_is_not_useful() -> None:
    cluster = ClusterBuilder()
    for number, zone in enumerate("aaab", start=1):
        cluster.node(f"worker-{number}", labels={ZONE: zone}, unschedulable=number == 4)
    # Nodes have precedence: of the two replicas on worker-1, one could move to worker-2 or worker-3. The replica on worker-4 must stay.
    cluster.deployment("web", ["worker-1", "worker-1", "worker-4", "worker-4"])
    move = next_move(cluster, (HOSTNAME, ZONE))
    assert isinstance(move, Move) and move.node in ("worker-2", "worker-3")
    cluster = workers(2)
    cluster.nodes.clear()
    cluster.node("worker-1", labels={ZONE: "a"})
    cluster.node("worker-2", labels={ZONE: "a"})
    cluster.node("worker-3", labels={ZONE: "b"}, unschedulable=True)
    cluster.deployment("web", ["worker-1", "worker-1", "worker-1", "worker-3"])
    move = next_move(cluster, (HOSTNAME, ZONE))
    assert isinstance(move, Move) and (move.pod.spec.node_name, move.node) == ("worker-1", "worker-2")


def test_a_pod_on_a_node_that_is_gone_is_no_error() -> None:
    cluster = workers(3)
    cluster.deployment("web", ["gone", "gone", "gone"])
    assert isinstance(next_move(cluster), (Move, Reason))


def test_a_move_says_from_where_to_where_and_why() -> None:
    cluster = workers(4)
    cluster.deployment("web", homes(3, 1, 0, 0))
    move = next_move(cluster)
    assert isinstance(move, Move)
    # The scores of the scheduler prefer zone b, in which worker-4 is empty.
    assert (move.topology_key, move.source, move.targets, move.node) == (HOSTNAME, "worker-1", ("worker-4",), "worker-4")
    assert str(move.reason).startswith("surplus: 3 replicas in kubernetes.io/hostname=worker-1, ")
    assert str(move.reason).endswith(" to worker-4 (0)")


def test_without_scores_each_node_with_capacity_is_a_target() -> None:
    cluster = workers(4)
    cluster.deployment("web", homes(3, 1, 0, 0))
    line, snapshot = line_of(cluster, HOST)
    move = EvictionPlanner(line, snapshot, ClusterState.of(snapshot), HOST, by_scores=False).next_move()
    assert isinstance(move, Move) and move.targets == ("worker-3", "worker-4", "worker-2")
    assert str(move.reason).startswith("surplus: 3 replicas in kubernetes.io/hostname=worker-1, ")
    assert str(move.reason).endswith(" to worker-3 (0), worker-4 (0), worker-2 (1)")


def test_full_nodes_and_closed_nodes_take_no_replacement() -> None:
    cluster = workers(3)
    cluster.node("closed", unschedulable=True)
    cluster.deployment("web", homes(3))
    for node in ("worker-2", "worker-3"):
        cluster.pod(f"filler-{node}", node, template={"spec": {"containers": [{"name": "x", "resources": {"requests": {"cpu": "4"}}}]}})
    reason = str(next_move(cluster))
    assert reason.startswith("no_capacity: ") and reason.endswith(": Insufficient cpu (2 nodes)")


@pytest.mark.parametrize("closed", [{"unschedulable": True}, {"ready": False}])
@pytest.mark.parametrize("keys", [HOST, (ZONE, HOSTNAME)])
def test_replicas_on_a_node_that_has_closed_are_piled_up_there_too(closed: Json, keys: Keys) -> None:
    cluster = ClusterBuilder()
    cluster.node("worker-1", labels={ZONE: "a"}, **closed)
    for name in ("worker-2", "worker-3"):
        cluster.node(name, labels={ZONE: "a"})
    cluster.deployment("web", homes(3))
    line, snapshot = line_of(cluster, keys)
    cluster_state = ClusterState.of(snapshot)
    first = EvictionPlanner(line, snapshot, cluster_state, keys).next_move()
    assert isinstance(first, Move)
    moves = plan(line, snapshot, cluster_state, RestartOptions(strategy=EVICT_SURPLUS, topology_keys=keys, dry_run=True), first)
    assert sorted((move.pod.spec.node_name, move.node) for move in moves) == [("worker-1", "worker-2"), ("worker-1", "worker-3")]
    assert decide(cluster, keys=keys).action == EVICT


def sized(cpu: str) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": f"{cpu}Gi"}}
    return {"spec": {"containers": [{"name": "m", "image": "web", "resources": resources}]}}


def test_a_node_about_which_something_is_unknown_may_be_chosen() -> None:
    """The node large is in the zone of the replicas. It is empty, and a pending pod of another scheduler is nominated for it."""
    cluster = ClusterBuilder()
    for name, zone, cpu in (("worker-1", "a", "8"), ("large", "a", "64"), ("worker-2", "b", "8")):
        cluster.node(name, labels={ZONE: zone}, allocatable={"cpu": cpu, "memory": f"{cpu}Gi", "pods": "110"})
    cluster.pod("filler-0", "worker-1", labels={"app": "other"}, template=sized("4"))
    rule = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "none"}}}
    template = sized("1")
    template["spec"]["topologySpreadConstraints"] = [rule]
    cluster.deployment("web", ["worker-1"] * 2, template=template)
    move = next_move(cluster, (ZONE,))
    assert isinstance(move, Reason) and move.code == "scoring_does_not_spread"
    waiting = {"schedulerName": "other", "priority": 1000, **sized("64")["spec"]}
    status = {"phase": "Pending", "nominatedNodeName": "large"}
    cluster.pods.append(struct(Pod, {"metadata": {"name": "n", "namespace": "app", "uid": "n"}, "spec": waiting, "status": status}))
    move = next_move(cluster, (ZONE,))
    assert isinstance(move, Reason) and move.code == "unknown" and "nominated" in move.text


def test_the_target_is_in_the_domain_that_the_scheduler_chooses() -> None:
    """The replicas prefer zone a, so a move changes the distribution over nodes, and not over zones."""
    cluster = ClusterBuilder()
    for number, zone in enumerate("aab", start=1):
        cluster.node(f"worker-{number}", labels={ZONE: zone})
    in_zone_a = [{"weight": 100, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": in_zone_a}}
    cluster.deployment("web", homes(3), template={"spec": {"affinity": affinity}})
    move = next_move(cluster, (ZONE, HOSTNAME))
    assert isinstance(move, Move)
    assert (move.topology_key, move.source, move.targets, move.node) == (HOSTNAME, "worker-1", ("worker-2",), "worker-2")


def test_domains_without_free_capacity_are_no_targets() -> None:
    cluster = workers(4)
    cluster.deployment("web", homes(3, 0, 0, 0))
    cluster.pod("filler", "worker-2", template={"spec": {"containers": [{"name": "x", "resources": {"requests": {"cpu": "4"}}}]}})
    line, snapshot = line_of(cluster, HOST)
    move = EvictionPlanner(line, snapshot, ClusterState.of(snapshot), HOST, by_scores=False).next_move()
    assert isinstance(move, Move) and move.targets == ("worker-3", "worker-4")


def test_what_cannot_be_judged_is_no_yes() -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(3), template={"spec": {"resourceClaims": [{"name": "gpu"}]}})
    reason = next_move(cluster)
    assert isinstance(reason, Reason) and reason.code == "unknown"


def test_the_replacement_has_the_present_revision_and_stands_beside_its_siblings() -> None:
    cluster = workers(3)
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
        "topologyKey": HOSTNAME,
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.deployment("web", [*homes(2), "worker-2"], template={"spec": {"affinity": affinity}})
    move = next_move(cluster)
    assert isinstance(move, Move) and move.targets == ("worker-3",)


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        ({"a": {}, "b": {"ready": False}}, "b"),
        ({"a": {"cost": "5"}, "b": {"cost": "-5"}, "c": {}}, "b"),
        ({"a": {"cost": "5"}, "b": {"cost": "no number"}}, "b"),
        ({"a": {"created": "2026-01-01T00:00:00Z"}, "b": {"created": "2026-01-02T00:00:00Z"}}, "b"),
        ({"a": {"created": "2026-01-01T00:00:00Z", "cost": "-1"}, "b": {"created": "2026-01-02T00:00:00Z"}}, "a"),
    ],
)
def test_of_several_pods_the_cheapest_goes(pods: dict[str, Json], chosen: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", [], replicas=len(pods))
    for name, pod in pods.items():
        metadata = {"creationTimestamp": pod.get("created", "2026-01-01T00:00:00Z")}
        if "cost" in pod:
            metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": pod["cost"]}
        phase = "Running" if pod.get("ready", True) else "Pending"
        cluster.pod(name, "worker-1", owner=("ReplicaSet", "rs-web-hash1"), phase=phase, **metadata)
    move = next_move(cluster)
    assert isinstance(move, Move) and move.pod.metadata.name == chosen


def test_a_stateful_set_gives_the_highest_ordinal_of_the_fullest_domain() -> None:
    cluster = workers(3)
    cluster.stateful_set("db", ["worker-1", "worker-1", "worker-2", "worker-1"], ordinals={"start": 5})
    move = next_move(cluster)
    assert isinstance(move, Move) and move.pod.metadata.name == "db-8"


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        (("anywhere", "here", "there"), ("db-2", ("worker-2",))),
        (("anywhere", "anywhere", "here"), ("db-1", ("worker-2",))),
        (("here", "here", "here"), "no_capacity"),
        (("anywhere", "anywhere", "missing"), ("db-1", ("worker-2",))),
    ],
)
@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_replica_of_a_stateful_set_goes_where_its_own_claims_let_it(volumes: tuple[str, ...], expected: t.Any, mode: str) -> None:
    cluster = workers(3)
    cluster.stateful_set("db", homes(3), volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"accessModes": [mode]}}])
    for number, name in enumerate(volumes):
        cluster.claims.append(claim(f"data-db-{number}", to=name, accessModes=[mode], metadata={"namespace": "app"}))
        cluster.pods[number] = mounting(cluster.pods[number], f"data-db-{number}")
    here, there = volume("here", on="worker-1"), volume("there", on="worker-2")
    move = next_move(cluster, storage=stored(here, there, volume("anywhere")))
    found = (move.pod.metadata.name, move.targets) if isinstance(move, Move) else move.code
    assert found == expected


def test_excess_is_what_moves_can_lessen() -> None:
    cluster = workers(4)
    topology = Topology({node.name: node for node in cluster.nodes})
    eligible = tuple(node.name for node in cluster.nodes)
    found = [
        skew_cost([topology.distribute(HOSTNAME, homes(*counts), eligible)])[1]
        for counts in ((4, 4), (4, 3, 1), (2, 2, 2, 2), (2, 1, 1, 1))
    ]
    assert found == [16, 10, 0, 0]
    assert skew_cost([topology.distribute(HOSTNAME, homes(3), eligible[1:])]) == (1, 6)


# --- what forbids it --------------------------------------------------------------------------------------------------


def pending(revision: str = "hash1", *, age_s: float = 60, attempts: int = 1) -> Json:
    """The metadata of a workload from which an earlier run evicted a pod."""
    outcome = make_outcome(now_s=NOW - age_s, attempts=attempts, outcome=PENDING, revision=revision, eligible="x")
    return {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}}


def test_a_collapsed_workload_is_evicted_from_with_its_attempt_counted() -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(2))
    decision = decide(cluster)
    assert (decision.action, decision.reason.code, decision.begun) == (EVICT, "collapsed", False)
    assert decision.outcome is not None
    assert (decision.outcome.outcome, decision.outcome.attempts, decision.outcome.revision) == (PENDING, 1, "hash1")


@pytest.mark.parametrize(
    ("options", "counts", "action", "code"),
    [
        ({}, (3, 1, 0), EVICT, "surplus"),
        ({"max_skew": 3}, (3, 1, 0), SKIPPED, "spread"),
        ({"max_skew": 2}, (3, 1, 0), EVICT, "skewed"),
        ({"max_skew": 3, "only_if_helps": False}, (3, 1, 0), EVICT, "surplus"),
        ({"strategy": AUTO}, (3, 1, 0), SKIPPED, "spread"),
        ({}, (1, 1, 0), SKIPPED, "spread"),
        ({"only_if_helps": False}, (1, 1, 0), SKIPPED, "spread"),
        ({}, (1, 0, 0), REFUSED, "too_few_replicas"),
    ],
)
def test_what_counts_as_uneven(options: Json, counts: tuple[int, ...], action: str, code: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(*counts))
    decision = decide(cluster, **options)
    assert (decision.action, decision.reason.code) == (action, code)


def test_a_key_with_one_domain_says_nothing_about_another() -> None:
    cluster = ClusterBuilder()
    for name in ("worker-1", "worker-2", "worker-3"):
        cluster.node(name, labels={ZONE: "a"})
    cluster.deployment("web", homes(3, 1, 0))
    decision = decide(cluster, keys=(ZONE, HOSTNAME))
    assert (decision.action, decision.reason.code) == (EVICT, "surplus")


@pytest.mark.parametrize("paused", [True, False])
def test_a_paused_deployment_and_recreate_are_allowed(paused: bool) -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(2), paused=paused, strategy={"type": "Recreate"})
    assert decide(cluster).action == EVICT


def test_a_shared_claim_is_refused() -> None:
    cluster = workers(3)
    cluster.claim("data", "ReadWriteOnce")
    cluster.deployment("web", homes(2), template={"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}})
    assert decide(cluster).reason.code == "shared_rwo_volume"


@pytest.mark.parametrize(
    ("hard", "code"),
    [({"pods": "1"}, "quota"), ({"pods": "2"}, "collapsed"), ({"requests.cpu": "100m"}, "quota"), ({"secrets": "0"}, "collapsed")],
)
def test_an_overdrawn_quota_would_let_no_pod_come_back(hard: dict[str, str], code: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(2))
    cluster.quota("small", hard, {"pods": "2", "requests.cpu": "200m", "secrets": "1"})
    assert decide(cluster).reason.code == code


@pytest.mark.parametrize(
    ("strategy", "status", "code"),
    [
        ({"type": "OnDelete"}, {}, "collapsed"),
        ({"type": "OnDelete"}, {"updateRevision": "rev2"}, "pending_revision"),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, {}, "collapsed"),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
            {"updateRevision": "rev2", "updatedReplicas": 0},
            "pending_revision",
        ),
    ],
)
def test_a_stateful_set_that_holds_a_revision_back_is_refused(strategy: Json, status: Json, code: str) -> None:
    cluster = workers(3)
    cluster.stateful_set("db", homes(3), updateStrategy=strategy, status=status)
    assert decide(cluster).reason.code == code


def test_one_pod_is_away_already_so_no_other_is_evicted() -> None:
    cluster = workers(3)
    cluster.deployment("web", [*homes(3), ""], replicas=4)
    assert (decide(cluster).action, decide(cluster).reason.code) == (REFUSED, "not_ready")


def test_the_only_pod_that_is_not_ready_may_itself_be_evicted() -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(2), replicas=3)
    cluster.pod("sick", "worker-1", owner=("ReplicaSet", "rs-web-hash1"), phase="Pending")
    decision = decide(cluster)
    assert decision.move is not None and decision.move.pod.metadata.name == "sick"


@pytest.mark.parametrize(("allow_downtime", "action"), [(False, REFUSED), (True, EVICT)])
def test_another_available_pod_must_remain(allow_downtime: bool, action: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(1), replicas=2, status={"availableReplicas": 0})
    cluster.pod("sick", "worker-1", owner=("ReplicaSet", "rs-web-hash1"), phase="Pending")
    decision = decide(cluster, allow_downtime=allow_downtime)
    assert decision.action == action and (allow_downtime or decision.reason.code == "downtime")


def test_a_pod_that_is_ready_but_does_not_count_yet_is_away_too() -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(3), status={"availableReplicas": 2})
    decision = decide(cluster)
    assert (decision.action, str(decision.reason)) == (
        REFUSED,
        "not_ready: 2 of 3 replicas are available; at most one pod of Deployment app/web is unavailable at a time",
    )
    cluster = workers(3)
    cluster.deployment("web", homes(2, 1), status={"availableReplicas": 2}, metadata=pending())
    assert decide(cluster).action == WAIT


@pytest.mark.parametrize(("ahead_s", "action"), [(3, WAIT), (60, REFUSED), (3600, EVICT)])
def test_what_was_written_in_the_future_is_not_waited_for(ahead_s: float, action: str) -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(3), metadata=pending(age_s=-ahead_s))
    decision = decide(cluster)
    assert (decision.action, decision.begun) == (action, ahead_s < 300)


@pytest.mark.parametrize(("counts", "bare", "planned"), [((1, 1), 0, ()), ((3, 0), 0, (("worker-1", "worker-2"),)), ((0, 0), 2, ())])
def test_a_node_without_the_key_is_no_better_place(counts: tuple[int, ...], bare: int, planned: tuple[tuple[str, str], ...]) -> None:
    cluster = ClusterBuilder()
    for number in (1, 2):
        cluster.node(f"worker-{number}", labels={"rack": f"r{number}"})
    cluster.node("bare")
    cluster.deployment("web", [*homes(*counts), *["bare"] * bare])
    line, snapshot = line_of(cluster, ("rack",))
    cluster_state = ClusterState.of(snapshot)
    first = EvictionPlanner(line, snapshot, cluster_state, ("rack",), by_scores=False).next_move()
    if bare:
        assert isinstance(first, Move) and first.node in ("worker-1", "worker-2"), "in a rack they are better placed"
        return
    assert decide(cluster, keys=("rack",)).reason.code == "no_domain", "it could be scheduled there nevertheless"
    by_scores = EvictionPlanner(line, snapshot, cluster_state, ("rack",)).next_move()
    assert not isinstance(by_scores, Move), "the scheduler may choose the node without a rack"
    options = RestartOptions(topology_keys=("rack",), only_if_helps=False, dry_run=True)
    moves = [] if isinstance(first, Reason) else plan(line, snapshot, cluster_state, options, first)
    # Nodes whose scores are equal may be in another order.
    assert [move.pod.spec.node_name for move in moves] == [source for source, _target in planned]
    assert sorted(move.node for move in moves) == sorted(target for _source, target in planned)


@pytest.mark.parametrize(
    ("counts", "metadata", "options", "action", "code", "attempts"),
    [
        ((2, 0), pending(), {}, EVICT, "collapsed", 2),
        ((2, 0), pending(attempts=3), {}, EVICT, "collapsed", 4),  # over other nodes than now one more attempt is made
        ((1, 1), pending(), {}, SKIPPED, "spread", 0),
        ((2, 0), pending(age_s=1), {}, WAIT, "replacement_under_way", 0),
        ((2, 0), pending("hash0"), {}, EVICT, "collapsed", 1),
    ],
)
def test_an_interrupted_run_is_gone_on_with(
    counts: tuple[int, ...], metadata: Json, options: Json, action: str, code: str, attempts: int
) -> None:
    cluster = workers(2)
    cluster.deployment("web", homes(*counts), metadata=metadata)
    if attempts == 2:  # the same nodes as then
        line, _snapshot = line_of(cluster)
        cluster = workers(2)
        outcome = make_outcome(now_s=NOW - 60, attempts=1, outcome=PENDING, revision="hash1", eligible=line.eligible_hash)
        cluster.deployment("web", homes(*counts), metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    decision = decide(cluster, **options)
    assert (decision.action, decision.reason.code) == (action, code)
    if decision.outcome is not None:
        assert decision.outcome.attempts == attempts


def test_an_interrupted_eviction_is_waited_for_before_anything_else_goes() -> None:
    cluster = workers(3)
    cluster.deployment("web", [*homes(3), ""], replicas=4, metadata=pending())
    assert decide(cluster).action == WAIT


@pytest.mark.parametrize(("denied", "action"), [(False, WAIT), (True, EVICT)])
def test_the_eviction_of_a_sick_pod_is_tried_again_after_a_rejection(denied: bool, action: str) -> None:
    cluster = workers(3)
    workload = cluster.deployment("web", homes(2), replicas=3, metadata=pending())
    cluster.pod("sick", "worker-1", owner=("ReplicaSet", "rs-web-hash1"), phase="Pending")
    line, snapshot = line_of(cluster)
    options = RestartOptions(strategy=EVICT_SURPLUS)
    ours = read_outcome(workload.metadata.annotations)
    decision = decide_eviction(line, snapshot, ClusterState.of(snapshot), options, now_s=NOW, ours=ours, denied=denied)
    assert decision.action == action


def test_another_run_that_writes_meanwhile_takes_over() -> None:
    cluster = workers(3)
    cluster.deployment("web", homes(3), metadata=pending())
    line, snapshot = line_of(cluster)
    ours = make_outcome(now_s=NOW - 70, attempts=1, outcome=PENDING, revision="hash1", eligible="x")
    decision = decide_eviction(line, snapshot, ClusterState.of(snapshot), RestartOptions(strategy=EVICT_SURPLUS), now_s=NOW, ours=ours)
    assert (decision.action, decision.reason.code, decision.begun) == (REFUSED, "changed_meanwhile", False)


def test_attempts_end() -> None:
    cluster = workers(2)
    cluster.deployment("web", homes(2))
    line, _snapshot = line_of(cluster)
    outcome = make_outcome(now_s=NOW - 60, attempts=3, outcome=PENDING, revision="hash1", eligible=line.eligible_hash)
    cluster = workers(2)
    cluster.deployment("web", homes(2), metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    decision = decide(cluster)
    assert (decision.action, decision.reason.code, decision.begun) == (REFUSED, "attempts_used_up", True)


@pytest.mark.parametrize(
    ("counts", "metadata", "strategy"),
    [((3, 0), None, ROLLOUT), ((3, 1), None, EVICT_SURPLUS), ((3, 0), pending(), EVICT_SURPLUS)],
)
def test_auto_takes_a_rollout_for_collapsed_workloads_only(counts: tuple[int, ...], metadata: Json | None, strategy: str) -> None:
    cluster = workers(2)
    cluster.deployment("web", homes(*counts), metadata=metadata)
    line, snapshot = line_of(cluster)
    assert choose_strategy(line, snapshot, RestartOptions(strategy=AUTO)) == strategy


@pytest.mark.parametrize(
    ("constraint_is_set", "only_if_helps", "expected"),
    [
        pytest.param(True, True, ("evict", "collapsed"), id="the scores choose the other node"),
        pytest.param(False, True, ("skipped", "scoring_does_not_spread"), id="the scores choose the preferred node"),
        pytest.param(False, False, ("evict", "collapsed"), id="without a prediction"),
    ],
)
def test_scores_decide_for_pods_with_a_preferred_affinity(constraint_is_set: bool, only_if_helps: bool, expected: tuple[str, str]) -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
    spec: Json = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    if constraint_is_set:
        spec["topologySpreadConstraints"] = [constraint]
    cluster = ClusterBuilder()
    cluster.node("fast", labels={"disk": "ssd"})
    cluster.node("slow")
    cluster.deployment("web", ["fast", "fast"], template={"spec": spec})
    made = decide(cluster, only_if_helps=only_if_helps)
    assert (made.action, made.reason.code) == expected


@pytest.mark.parametrize(("grace_s", "expected"), [(30, ("evict", "collapsed")), (0, ("skipped", "scoring_does_not_spread"))])
def test_the_evicted_pod_uses_its_node_when_its_replacement_is_placed(grace_s: int, expected: tuple[str, str]) -> None:
    """The preferred node has capacity for the two replicas only."""
    preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    cluster = ClusterBuilder()
    cluster.node("fast", labels={"disk": "ssd"}, allocatable={"cpu": "2", "memory": "2Gi", "pods": "110"})
    cluster.node("slow")
    spec = {**sized("1")["spec"], "affinity": affinity, "terminationGracePeriodSeconds": grace_s}
    cluster.deployment("web", ["fast", "fast"], template={"spec": spec})
    made = decide(cluster)
    assert (made.action, made.reason.code) == expected
