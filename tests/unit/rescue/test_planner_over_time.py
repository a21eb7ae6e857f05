# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A planner that reuses earlier results and skips nodes has the same plans as one without.

The clusters and the events between the snapshots are random. SOAK=1 runs forty times as many. A failure names the seed of its cluster.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.caches import BoundedCache
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.victim_search import (
    MAX_CAPACITIES,
    Capacities,
    VictimSearch,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import FilterRunner

from tests.unit.rescue.random_clusters import APPS, Cluster, chance, random_cluster
from tests.unit.rescue.search.test_against_brute_force import SOAK
from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import budget
from tests.unit.support.searches import victim_search

CLUSTERS = 80 * (40 if SOAK else 1)
LOOKS = 5
NOW_S = 1_769_904_000.0
"""The time at which the random terminating pods end."""


class Looks:
    """A cluster that changes between snapshots. Unchanged parts stay the same Python object, as in the cache."""

    def __init__(self, random: Random) -> None:
        self._random = random
        first, *others = (random_cluster(random, most_pods=5) for _number in range(3))
        self.options: RescueOptions = first.options
        self._nodes: dict[str, Node] = dict(first.snapshot.nodes)
        self._pods = [pod for pod in first.snapshot.pods if pod is not first.pod]
        self._budgets = {one.metadata.name: one for one in _budgets(first)}
        self._jobs = list(first.snapshot.jobs.values())
        self._rescued = first.rescued
        self.critical = [first.pod, *(other.pod for other in others)]

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now."""
        return snapshot_of(nodes=self._nodes.values(), pods=[*self._pods, *self.critical], budgets=self._budgets.values(), jobs=self._jobs)

    def rescued(self) -> frozenset[str]:
        """The pods that were rescued a short time ago, others at each call."""
        return frozenset(uid for uid in self._rescued if chance(self._random, 50))

    def change(self) -> None:
        """One event."""
        other = random_cluster(self._random, most_pods=5)
        self._random.choice((*([self._change_budget] * 3), self._come, self._go, self._change_node, self._change_pod))(other)

    def _come(self, other: Cluster) -> None:
        self._pods += [pod for pod in other.snapshot.pods if pod is not other.pod and pod.spec.node_name][:1]

    def _go(self, _other: Cluster) -> None:
        if self._pods:
            self._pods.pop(self._random.randrange(len(self._pods)))

    def _change_budget(self, _other: Cluster) -> None:
        """Several changes together: those of one workload decide about few pods."""
        self._budgets.pop(self._random.choice(APPS), None)
        allowed = self._random.choice((0, 0, 1, 3))
        changed = (app for app in APPS if chance(self._random, 60))
        self._budgets.update({app: budget(app, {"app": app}, allowed=allowed, healthy=4) for app in changed})

    def _change_node(self, other: Cluster) -> None:
        name = self._random.choice(list(other.snapshot.nodes))
        if name in self._nodes and chance(self._random, 15):
            del self._nodes[name]
        else:
            self._nodes[name] = other.snapshot.nodes[name]

    def _change_pod(self, _other: Cluster) -> None:
        if not self._pods:
            return
        position = self._random.randrange(len(self._pods))
        pod = self._pods[position]
        ends = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-02-01T00:00:00Z"))
        unready = replace(pod, status=replace(pod.status, conditions=None))
        self._pods[position] = self._random.choice((ends, unready))


def _budgets(cluster: Cluster) -> list[t.Any]:
    return [one for budgets in cluster.snapshot.budgets_by_namespace.values() for one in budgets]


def random_facts(random: Random, nodes: t.Sequence[str]) -> RescueContext:
    """Mostly none."""
    excluded = frozenset(name for name in nodes if chance(random, 5))
    return RescueContext(
        excluded_nodes=excluded,
        evicted_count=int(chance(random, 10)),
        awaits_terminating=chance(random, 85),
        awaits_others=chance(random, 85),
    )


def test_a_planner_that_continues_judges_as_one_that_starts() -> None:
    seen: Counter[str] = Counter()
    for seed in range(CLUSTERS):
        random = Random(f"looks/{seed}")
        looks, planner = Looks(random), None
        for _look in range(LOOKS):
            snapshot = looks.snapshot()
            rescued = looks.rescued()
            planner = RescuePlanner(snapshot, looks.options, now_s=NOW_S, rescued=rescued, earlier=planner)
            for pod in looks.critical:
                context = random_facts(random, list(snapshot.nodes))
                explain = chance(random, 50)
                plan = planner.plan_rescue(pod, context, explain=explain)
                fresh = RescuePlanner(snapshot, looks.options, now_s=NOW_S, rescued=rescued)
                assert plan == fresh.plan_rescue(pod, context, explain=explain), seed
                seen[plan.status] += 1
            for _event in range(random.randint(0, 3)):
                looks.change()
    assert min(seen[status] for status in ("impossible", "planned", "waiting")) > CLUSTERS // 3, seen


def test_the_nodes_within_reach_are_found_again_after_each_change() -> None:
    """Also if only budgets have changed."""
    changed = 0
    for seed in range(CLUSTERS):
        random = Random(f"reach/{seed}")
        looks, cluster_state = Looks(random), None
        reaches: Capacities = BoundedCache(MAX_CAPACITIES)
        before: list[list[str]] = []
        for _look in range(LOOKS):
            snapshot = looks.snapshot()
            cluster_state = ClusterState.of(snapshot, cluster_state)
            reached, fresh = (_reached(looks, cluster_state, snapshot, kept) for kept in (reaches, BoundedCache(MAX_CAPACITIES)))
            assert reached == fresh, seed
            changed += before not in ([], reached)
            before = reached
            looks.change()
    assert changed > CLUSTERS // 3


def _reached(looks: Looks, cluster_state: ClusterState, snapshot: ClusterSnapshot, reaches: Capacities) -> list[list[str]]:
    budgets = PdbLedger(snapshot)
    searches = (victim_search(pod, cluster_state, looks.options, budgets=budgets, reaches=reaches) for pod in looks.critical)
    return [search.reachable_nodes() for search in searches]


def test_nodes_that_are_left_out_change_no_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of_them(search: VictimSearch, node_names: Iterable[str] | None = None) -> list[str]:
        return search.cluster_state.in_order(node_names)

    left_out = 0
    for seed in range(CLUSTERS):
        random = Random(f"left out/{seed}")
        looks = Looks(random)
        snapshot = looks.snapshot()
        context = random_facts(random, list(snapshot.nodes))
        quick = [RescuePlanner(snapshot, looks.options, now_s=NOW_S).plan_rescue(pod, context) for pod in looks.critical]
        asked: list[RescuePlan] = []
        with monkeypatch.context() as patch:
            patch.setattr(VictimSearch, "reachable_nodes", all_of_them)
            asked = [RescuePlanner(snapshot, looks.options, now_s=NOW_S).plan_rescue(pod, context) for pod in looks.critical]
        assert quick == asked, seed
        left_out += sum(plan.status == "impossible" for plan in quick)
    assert left_out > CLUSTERS // 3


def test_what_rules_say_of_a_node_without_some_pods_is_what_they_say_once_these_have_left() -> None:
    """Also where the rules are about other nodes. A node that is shut stays closed whichever of its pods leave."""
    shut: Counter[bool] = Counter()
    for seed in range(4 * CLUSTERS):
        random = Random(f"without/{seed}")
        cluster = random_cluster(random, most_pods=5)
        judge = FilterRunner(cluster.pod, ClusterState.of(cluster.snapshot))
        for name in cluster.snapshot.nodes:
            there = ClusterState.of(cluster.snapshot).pods_on(name)
            gone = random.sample(there, random.randint(0, len(there)))
            known = judge.result_without_pods(name, gone)
            without = ClusterState.of(cluster.snapshot)
            for pod in gone:
                without.remove(pod)
            verdict = FilterRunner(cluster.pod, without).run_filters(name)
            assert known is None or known == verdict, seed
            is_shut = judge.always_rejects(name, there)
            assert not is_shut or verdict[0], seed
            shut[is_shut] += 1
    assert min(shut.values()) > CLUSTERS // 10, shut
