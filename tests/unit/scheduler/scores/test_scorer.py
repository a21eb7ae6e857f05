# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The total scores, the classes of nodes, changes of the cluster state, and the reasons why scores are not known."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import ScoreSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import Undecodable
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.scores.scorer import Scorer

from tests.unit.scheduler.scores.scored import profiles, scored_state, scores_of
from tests.unit.support.objects import Json, affinity_term, container, mounts, node, pod

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "k", "effect": "PreferNoSchedule"}
APART = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": affinity_term({"app": "web"}, ZONE)}]}


def nodes(count: int = 3, **more: Json) -> list[Node]:
    return [node(f"node-{number}", labels={HOST: f"node-{number}", ZONE: "ab"[number % 2]}, **more) for number in range(count)]


def web(on: str = "", **spec: object) -> Pod:
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    more = {"topologySpreadConstraints": [constraint], "affinity": {"podAntiAffinity": APART}, **spec}
    return pod({"cpu": "500m", "memory": "1Gi"}, on=on, labels={"app": "web"}, **more)


def test_total_is_the_sum_of_the_plugins_with_their_weights() -> None:
    found = scores_of(web(), nodes(), [web("node-0")])
    # (4 cpu, 8Gi): one pod leaves 87 % of both, two pods leave 75 %.
    assert found.by_plugin == {
        "NodeResourcesFit": {"node-0": 75, "node-1": 87, "node-2": 87},
        "NodeResourcesBalancedAllocation": {"node-0": 75, "node-1": 75, "node-2": 75},
        "ImageLocality": {"node-0": 0, "node-1": 0, "node-2": 0},
        "TaintToleration": {"node-0": 300, "node-1": 300, "node-2": 300},
        "PodTopologySpread": {"node-0": 0, "node-1": 200, "node-2": 200},
        "InterPodAffinity": {"node-0": 0, "node-1": 200, "node-2": 0},
    }
    assert found.totals == {"node-0": 450, "node-1": 862, "node-2": 662}


def test_weights_of_the_profile_count_and_disabled_plugins_do_not() -> None:
    settings = ScoreSettings(weights=(("NodeResourcesFit", 7), ("TaintToleration", 2)))
    found = scores_of(web(), [*nodes(1), node("tainted", taints=[TAINT])], settings=settings)
    assert found.totals == {"node-0": 7 * 87 + 2 * 100, "tainted": 7 * 87}


def test_each_node_has_the_score_1_without_score_plugins() -> None:
    assert scores_of(web(), nodes(), settings=ScoreSettings(weights=())).totals == {"node-0": 1, "node-1": 1, "node-2": 1}


def test_best_nodes_are_all_those_with_the_highest_total() -> None:
    scorer = Scorer(web(), scored_state(nodes(6), [web("node-0")]), DEFAULT_PROFILES)
    assert set(scorer.best(["node-5", "node-0", "node-3", "node-2"])) == {"node-5", "node-3"}
    assert scorer.best([]) == ()


def test_nodes_with_equal_classes_have_equal_scores() -> None:
    scorer = Scorer(web(), scored_state(nodes(9), [web("node-0")]), DEFAULT_PROFILES)
    names = [f"node-{number}" for number in range(9)]
    classes = {name: scorer.node_class(name) for name in names}
    assert sorted(Counter(classes.values()).values()) == [1, 4, 4]
    totals = scorer.class_totals(Counter(classes.values()))
    assert {name: totals[one] for name, one in classes.items()} == scorer.scores(names).totals


def test_only_the_class_of_a_node_with_a_changed_pod_changes() -> None:
    state = scored_state(nodes(4))
    scorer = Scorer(web(), state, DEFAULT_PROFILES)
    before = {f"node-{number}": scorer.node_class(f"node-{number}") for number in range(4)}
    added = web()
    state.assign(added, "node-2")
    assert [name for name, one in before.items() if scorer.node_class(name) != one] == ["node-2"]
    state.remove(added)
    assert {name: scorer.node_class(name) for name in before} == before


def test_pod_with_a_term_of_another_topology_key_changes_the_classes_of_all_nodes() -> None:
    rack = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": affinity_term({"app": "web"}, "rack")}]
        }
    }
    racks = [node(name, labels={"rack": name}) for name in ("a", "b")]
    state = scored_state(racks)
    scorer = Scorer(web(), state, DEFAULT_PROFILES)
    assert scorer.scores(["a", "b"]).by_plugin["InterPodAffinity"] == {"a": 0, "b": 0}
    before = scorer.node_class("a")
    state.assign(pod(affinity=rack), "b")
    assert scorer.node_class("a") != before
    assert scorer.scores(["a", "b"]).by_plugin["InterPodAffinity"] == {"a": 0, "b": 200}


def test_terms_about_hosts_do_not_make_a_class_of_each_node() -> None:
    by_host = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": affinity_term({"app": "web"}, HOST)}]}
    state = scored_state(nodes(8), [web("node-3")])
    scorer = Scorer(web(affinity={"podAntiAffinity": by_host}), state, DEFAULT_PROFILES)
    names = [f"node-{number}" for number in range(8)]
    # The two zones of the term of the pod on node-3, and node-3 itself.
    assert len({scorer.node_class(name) for name in names}) == 3
    assert scorer.scores(names).by_plugin["InterPodAffinity"]["node-3"] == 0


def test_pod_changes_the_class_of_another_node_with_the_same_label_of_the_host() -> None:
    by_host = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": affinity_term({"app": "web"}, HOST)}]}
    state = scored_state([node(name, labels={HOST: host}) for name, host in (("a", "same"), ("b", "same"), ("c", "c"))])
    scorer = Scorer(web(affinity={"podAntiAffinity": by_host}), state, DEFAULT_PROFILES)
    assert scorer.scores("abc").by_plugin["InterPodAffinity"] == {"a": 0, "b": 0, "c": 0}
    state.assign(pod(labels={"app": "web"}), "a")
    assert scorer.scores("abc").by_plugin["InterPodAffinity"] == {"a": 0, "b": 0, "c": 200}
    assert scorer.best("abc") == ("c",)


@pytest.mark.parametrize("seed", range(20))
def test_scorer_that_follows_changes_equals_a_new_one(seed: int) -> None:
    random = Random(seed)
    names = [f"node-{number}" for number in range(6)]
    state = scored_state(nodes(6), [web(random.choice(names)) for _number in range(8)], services=[])
    by_host = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": affinity_term({}, HOST)}]}
    }
    followed = [Scorer(web(), state), Scorer(pod(labels={"app": "web"}), state), Scorer(web(affinity=by_host), state)]
    moved: list[Pod] = []
    for _step in range(12):
        if moved and random.random() < 0.4:
            state.remove(moved.pop(random.randrange(len(moved))))
        elif random.random() < 0.3:
            state.remove(random.choice(state.snapshot.pods))
        else:
            moved.append(web() if random.random() < 0.7 else pod({"cpu": "1"}))
            state.assign(moved[-1], random.choice(names))
        feasible = random.sample(names, random.randint(1, 6))
        for scorer in followed:
            found = scorer.scores(feasible)
            assert found == Scorer(scorer._pod, state).scores(feasible)
            highest = max(found.totals.values())
            assert set(scorer.best(feasible)) == {name for name, total in found.totals.items() if total == highest}
            fork = state.fork()
            on_fork = scorer.on_fork(fork)
            fork.assign(web(affinity=by_host), random.choice(names))
            assert on_fork.scores(feasible) == Scorer(scorer._pod, fork).scores(feasible)


CLAIM = {"resourceClaims": [{"name": "device"}]}
EXTENDED = {"containers": [container(limits={"example.com/gpu": "1"})]}
FOREIGN = Reason("foreign_plugin", "a plugin")


@pytest.mark.parametrize(
    ("asked", "settings", "snapshot", "codes"),
    [
        (web(), ScoreSettings(), {}, []),
        (web(**CLAIM), ScoreSettings(), {}, ["resource_claims"]),
        (web(**CLAIM), ScoreSettings(weights=(("NodeResourcesFit", 1),)), {}, []),
        (web(volumes=mounts("data")), ScoreSettings(scores_volumes=True), {}, ["volume_scores"]),
        (web(volumes=mounts("data")), ScoreSettings(), {}, []),
        (web(), ScoreSettings(scores_volumes=True), {}, []),
        (web(schedulerName="other"), ScoreSettings(), {}, ["foreign_scheduler"]),
        (web(), ScoreSettings(unknown=(FOREIGN,)), {}, ["foreign_plugin"]),
        (web(**EXTENDED), ScoreSettings(extender_resources=frozenset(["example.com/gpu"])), {}, ["depends_on_extender"]),
        (web(), ScoreSettings(extender_resources=frozenset(["example.com/gpu"])), {}, []),
        (web(), ScoreSettings(), {"complete_pods": False}, ["pods_not_readable"]),
        (web(), ScoreSettings(), {"undecodable": [Undecodable(kind="Node")]}, ["undecodable"]),
        (web(), ScoreSettings(), {"undecodable": [Undecodable(kind="Pod", node_name="node-1")]}, []),  # the filters know the node
        (web(), ScoreSettings(), {"undecodable": [Undecodable(kind="Job")]}, []),
        (web(tolerations=[{"operator": "Exists"}] * 201), ScoreSettings(), {}, ["too_many_rules"]),
    ],
)
def test_totals_are_empty_if_they_are_not_known(asked: Pod, settings: ScoreSettings, snapshot: Json, codes: list[str]) -> None:
    found = scores_of(asked, nodes(), settings=settings, **snapshot)
    assert [reason.code for reason in found.unknown] == codes
    assert len(found.totals) == (0 if codes else 3)
    state = scored_state(nodes(), **snapshot)
    assert [reason.code for reason in Scorer(asked, state, profiles(settings)).unknown()] == codes


def test_plugins_with_known_scores_are_shown_beside_one_with_unknown_scores() -> None:
    found = scores_of(web(**CLAIM), nodes())
    assert found.by_plugin["NodeResourcesFit"] == {"node-0": 87, "node-1": 87, "node-2": 87}
    assert "DynamicResources" not in found.by_plugin
