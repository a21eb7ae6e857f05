# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One judge for a pod while others come and go."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import FilterRunner, find_feasible

from tests.unit.support.cluster import cluster_state
from tests.unit.support.objects import (
    LOCAL,
    Json,
    affinity_term,
    anti_affinity,
    container,
    ephemeral,
    node,
    pod,
    pod_affinity,
    stored,
    volume,
)

HOST = "kubernetes.io/hostname"
WEB, DB = {"app": "web"}, {"app": "db"}
NODES = [node(name, labels={HOST: name, "zone": name[0]}) for name in ("a-1", "a-2", "b-1")]
SPREAD = {
    "topologySpreadConstraints": [
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": WEB}}
    ]
}


def state() -> tuple[ClusterState, list[Pod]]:
    """Pods that run on a-1, with and without terms of their own, and one that is nominated for b-1."""
    here = [
        pod({"cpu": "3"}, on="a-1", labels=WEB),
        pod(on="a-1", labels=DB, affinity=anti_affinity(WEB, "zone"), containers=[container(ports=[{"hostPort": 80}])]),
        pod({"cpu": "3"}, labels=WEB, status={"phase": "Pending", "nominatedNodeName": "b-1"}),
    ]
    return cluster_state(NODES, here), here


def built_again(now: ClusterState) -> ClusterState:
    """As the placement is, without what it has worked out."""
    other = ClusterState.of(now.snapshot)
    for change in now.changes:
        if change.amount > 0:
            other.assign(change.pod, change.node_name)
        else:
            other.remove(change.pod)
    return other


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": [container({"cpu": "2"})]},
        {"containers": [container(ports=[{"hostPort": 80}])]},
        SPREAD,
        {"affinity": anti_affinity(DB, "zone")},
        {"affinity": pod_affinity(affinity_term(DB, "zone"))},
        SPREAD | {"affinity": pod_affinity(affinity_term(WEB))},
    ],
)
@pytest.mark.parametrize("labels", [WEB, {}])
def test_the_verdicts_follow_what_changes(spec: Json, labels: Json) -> None:
    now, (web, db, nominated) = state()
    asked = pod(labels=labels, **spec)
    runner = FilterRunner(asked, now)
    new = [pod(labels=WEB), pod(labels=DB, affinity=anti_affinity(WEB))]
    moves = [
        lambda: now.remove(db),
        lambda: now.assign(db, "b-1"),
        lambda: now.assign(new[0], "a-2"),
        lambda: now.assign(new[1], "a-2"),
        lambda: now.remove(nominated),
        lambda: now.remove(web),
        lambda: now.assign(nominated, "a-1"),
        lambda: now.remove(new[1]),
        lambda: now.remove(db),
    ]
    names = tuple(now.snapshot.nodes)
    assert runner.feasibility() == runner.feasibility(names) == find_feasible(asked, built_again(now))
    for move in moves:
        move()
        is_feasible = runner.feasibility_test(names, accept_unknown=False)
        assert tuple(filter(is_feasible, names)) == find_feasible(asked, built_again(now)).feasible
        assert runner.feasibility(names) == FilterRunner(asked, now.fork()).feasibility(names) == find_feasible(asked, built_again(now))
        assert runner.feasibility() == find_feasible(asked, built_again(now)) == find_feasible(asked, now)
        assert FilterRunner(asked, now.fork()).feasibility() == runner.feasibility()


def test_a_doubt_about_all_nodes_comes_with_a_pod_that_moves_to_one() -> None:
    now = cluster_state(NODES, storage=stored(volume("one")))
    template = {"spec": {"containers": [container()], "volumes": ephemeral(storageClassName=LOCAL.metadata.name)}}
    asked = pod_of_template("default", decode_json(PodTemplate, encode_json(template)))
    runner = FilterRunner(asked, now)
    assert runner.feasibility().feasible == ("a-1", "a-2", "b-1")
    now.assign(pod(volumes=ephemeral(storageClassName=LOCAL.metadata.name)), "a-2")
    assert runner.feasibility() == find_feasible(asked, now)
    assert set(runner.feasibility().unknown_nodes) == {"a-1", "a-2", "b-1"}


def test_a_removed_nomination_frees_its_capacity() -> None:
    now, (_web, _db, nominated) = state()
    runner = FilterRunner(pod({"cpu": "2"}), now)
    assert runner.feasibility().feasible == ("a-2",)
    now.remove(nominated)
    assert runner.feasibility().feasible == ("a-2", "b-1")


def test_a_term_that_comes_with_a_pod_counts() -> None:
    now = cluster_state(NODES)
    runner = FilterRunner(pod(labels=WEB), now)
    assert len(runner.feasibility().feasible) == len(NODES)
    now.assign(pod(labels=DB, affinity=anti_affinity(WEB, "zone")), "a-1")
    assert runner.feasibility().feasible == ("b-1",)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container({"cpu": "4"})]},
        {"containers": [container(ports=[{"hostPort": 80}])]},
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeSelector": {"zone": "b"}},
        {"nodeName": "a-2"},
        {"overhead": {"cpu": "4"}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_pods_that_a_rule_tells_apart_share_no_verdicts(spec: Json) -> None:
    nodes = [*NODES, node("tainted", labels={HOST: "tainted", "zone": "t"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])]
    now = cluster_state(nodes, [pod({"cpu": "3"}, on="a-1", containers=[container({"cpu": "3"}, ports=[{"hostPort": 80}])])])
    plain, other = pod(), pod(**spec)
    expected = [find_feasible(asked, built_again(now)) for asked in (plain, other)]
    assert expected[0] != expected[1]
    names = tuple(now.snapshot.nodes)
    assert [find_feasible(asked, now) for asked in (plain, other, plain, other)] == expected * 2
    assert [find_feasible(asked, now, node_names=names) for asked in (plain, other, plain, other)] == expected * 2


def test_forks_do_not_mix_up_their_verdicts() -> None:
    now = cluster_state(NODES)
    full, free = now.fork(), now.fork()
    full.assign(pod({"cpu": "4"}), "a-1")
    free.assign(pod({"cpu": "1"}), "a-1")
    asked = pod({"cpu": "2"})
    for _again in range(2):
        assert find_feasible(asked, full).feasible == ("a-2", "b-1")
        assert find_feasible(asked, free).feasible == ("a-1", "a-2", "b-1")
        assert find_feasible(asked, now).feasible == ("a-1", "a-2", "b-1")
