# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Changes to a placement, and that they stay in it."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.interning import Interner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import FilterRunner, find_feasible

from tests.unit.support.cluster import cluster_state, snapshot_of
from tests.unit.support.objects import affinity_term, anti_affinity, claim, container, csi, mounts, node, pod, pod_affinity, stored, volume

BIG = {"cpu": "3"}
NODES = [node("node-1"), node("node-2")]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
TEMPLATES: list[dict[str, t.Any]] = [
    {"labels": {"app": "db"}, "affinity": anti_affinity({"app": "db"})},
    {"labels": {"app": "web"}, "affinity": anti_affinity({"app": "db"}, ZONE)},
    {"labels": {"app": "cache"}, "affinity": pod_affinity(affinity_term({"app": "web"}, ZONE))},
    {"labels": {"app": "db"}},
    {"labels": {"app": "log"}, "requests": {"cpu": "2"}},
]
"""Siblings share their parts, those of different templates do not."""


def test_a_removed_pod_frees_its_capacity() -> None:
    old = pod(BIG, on="node-1")
    now = cluster_state(NODES, [old])
    assert find_feasible(pod(BIG), now).feasible == ("node-2",)
    now.remove(old)
    assert find_feasible(pod(BIG), now).feasible == ("node-1", "node-2")
    assert now.pods_on("node-1") == []


def test_an_assigned_pod_uses_capacity() -> None:
    now = cluster_state(NODES)
    new = pod(BIG)
    now.assign(new, "node-2")
    assert find_feasible(pod(BIG), now).feasible == ("node-1",)
    assert now.pods_on("node-2") == [new]


def test_an_assigned_pod_leaves_where_it_was() -> None:
    moving = pod(BIG, on="node-1")
    now = cluster_state(NODES, [moving])
    now.assign(moving, "node-2")
    now.assign(moving, "node-1")
    now.assign(moving, "node-2")
    assert (now.pods_on("node-1"), now.pods_on("node-2")) == ([], [moving])
    assert find_feasible(pod(BIG), now).feasible == ("node-1",)


def test_a_fork_goes_its_own_way() -> None:
    old = pod(BIG, on="node-1")
    base = cluster_state(NODES, [old])
    fork = base.fork()
    fork.remove(old)
    fork.assign(pod(BIG), "node-2")
    base.assign(pod(BIG), "node-2")
    assert find_feasible(pod(BIG), base).feasible == ()
    assert find_feasible(pod(BIG), fork).feasible == ("node-1",)
    assert find_feasible(pod(BIG), fork.fork()).feasible == ("node-1",)
    assert base.snapshot is fork.snapshot


def test_removing_twice_frees_once() -> None:
    old, other = pod(BIG, on="node-1"), pod(BIG, on="node-1")
    now = cluster_state(NODES, [old, other])
    now.remove(old)
    now.remove(old)
    assert now.pods_on("node-1") == [other]
    assert now.info("node-1").requested == {"cpu": 3000}


def test_a_host_port_is_free_when_its_last_pod_has_left() -> None:
    ports: dict[str, t.Any] = {"containers": [container(ports=[{"hostPort": 80, "containerPort": 80}])]}
    first, second = pod(on="node-1", **ports), pod(on="node-1", **ports)
    now = cluster_state(NODES, [first, second])
    now.remove(first)
    assert "node-1" in find_feasible(pod(**ports), now).rejected
    now.remove(second)
    assert "node-1" in find_feasible(pod(**ports), now).feasible


def test_pods_of_one_template_are_told_apart_by_uid() -> None:
    template = pod(BIG)
    now = cluster_state([node("node-1", allocatable={"cpu": "9"})])
    for number in range(3):
        now.assign(replace(template, metadata=replace(template.metadata, uid=f"new-{number}")), "node-1")
    assert now.info("node-1").requested == {"cpu": 9000}


def test_a_pod_without_uid_and_name_cannot_be_assigned() -> None:
    with pytest.raises(ValueError, match="uid of their own"):
        cluster_state(NODES).assign(Pod(), "node-1")


def test_pods_on_unknown_nodes_are_not_counted() -> None:
    now = cluster_state(NODES, [pod(BIG, on="gone")])
    assert now.pods_on("gone") == []
    now.remove(pod(BIG, on="gone"))
    with pytest.raises(KeyError):
        now.assign(pod(), "gone")


def test_equal_parts_of_different_pods_are_not_mixed_up() -> None:
    shared = pod(on="node-1", containers=[container(BIG, ports=[{"containerPort": 80}])])
    on_host = replace(shared, metadata=replace(shared.metadata, uid="other"), spec=replace(shared.spec, host_network=True))
    with_overhead = replace(shared, metadata=replace(shared.metadata, uid="third"), spec=replace(shared.spec, overhead={"cpu": "1"}))
    info = cluster_state(NODES, [shared, on_host, with_overhead]).info("node-1")
    assert info.requested == {"cpu": 10000}
    assert info.used_ports == {("TCP", 80): ("0.0.0.0",)}


def test_a_restored_pod_is_where_it_was() -> None:
    old, other = pod(BIG, on="node-1", containers=[container(BIG, ports=[{"hostPort": 80}])]), pod(on="node-1")
    now = cluster_state(NODES, [old, other])
    runner = FilterRunner(pod(BIG), now)
    assert runner.feasibility().feasible == ("node-2",)
    now.remove(old)
    assert runner.feasibility().feasible == ("node-1", "node-2")
    now.restore(old)
    now.restore(old)
    now.restore(other)
    assert runner.feasibility().feasible == ("node-2",)
    assert now.pods_on("node-1") == [other, old]
    assert now.info("node-1").used_ports == {("TCP", 80): ("0.0.0.0",)}
    assert not list(now.arrived_pods())
    now.assign(old, "node-2")
    now.restore(old)
    assert (now.pods_on("node-1"), now.pods_on("node-2")) == ([other, old], [])


def test_unchanged_nodes_are_taken_over_from_an_earlier_placement() -> None:
    first, second = pod(BIG, on="node-1"), pod(BIG, on="node-2")
    earlier = cluster_state(NODES, [first, second])
    infos = {found.name: earlier.info(found.name) for found in NODES}
    same = ClusterState.of(snapshot_of(nodes=NODES, pods=[first, second]), earlier)
    assert all(same.info(name) is info for name, info in infos.items())
    less = ClusterState.of(snapshot_of(nodes=NODES, pods=[first]), earlier)
    assert less.info("node-1") is infos["node-1"]
    assert less.info("node-2").requested == {}
    resized = replace(second, spec=replace(second.spec, containers=pod({"cpu": "1"}).spec.containers))
    changed = ClusterState.of(snapshot_of(nodes=[node("node-1", allocatable={"cpu": "9"}), NODES[1]], pods=[first, resized]), earlier)
    assert changed.info("node-1").allocatable["cpu"] == 9000
    assert changed.info("node-2").requested == {"cpu": 1000}


def test_what_happens_in_a_fork_is_not_taken_over() -> None:
    old = pod(BIG, on="node-1")
    earlier = cluster_state(NODES, [old])
    earlier.remove(old)
    assert ClusterState.of(earlier.snapshot, earlier).pods_on("node-1") == [old]


def test_volumes_are_attached_by_the_newer_snapshot() -> None:
    user = pod(on="node-1", volumes=mounts("data"))
    old = snapshot_of(
        nodes=NODES, pods=[user], claims=[claim(to="one")], storage=stored(volume("one", **csi("1")), volume("two", **csi("2")))
    )
    earlier = ClusterState.of(old)
    assert earlier.storage.attached(earlier.info("node-1")).volumes == {("csi.example.com", "1")}
    new = snapshot_of(nodes=NODES, pods=[user], claims=[claim(to="two")], storage=old.storage)
    now = ClusterState.of(new, earlier)
    assert now.storage.attached(now.info("node-1")).volumes == {("csi.example.com", "2")}


@pytest.mark.parametrize("seed", range(60))
def test_what_an_earlier_placement_knew_changes_no_verdict(seed: int) -> None:
    """Pods come, leave, move, end and finish, and nodes come and go, from one snapshot to the next."""
    chance = random.Random(seed)
    nodes = [node(f"node-{number}", labels={HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 2}"}) for number in range(4)]
    interner = Interner()
    pods = [interner.intern_pod(_of_some_template(chance)) for _number in range(8)]
    earlier: ClusterState | None = None
    for _step in range(6):
        snapshot = snapshot_of(nodes=chance.sample(nodes, chance.randint(2, 4)), pods=pods)
        following = ClusterState.of(snapshot, earlier)
        for template in TEMPLATES:
            asked = pod(**template)
            assert find_feasible(asked, following) == find_feasible(asked, ClusterState.of(snapshot))
        earlier = following
        later = (_later(old, chance) for old in pods)
        pods = [interner.intern_pod(other) for other in (*later, _of_some_template(chance)) if other is not None]


def _of_some_template(chance: random.Random) -> Pod:
    return pod(on=f"node-{chance.randrange(4)}", **chance.choice(TEMPLATES))


def _later(old: Pod, chance: random.Random) -> Pod | None:
    """Return a later state of the pod, or None if it is deleted."""
    fate = chance.randrange(8)
    if fate == 0:
        return None
    if fate == 1:
        return replace(old, spec=replace(old.spec, node_name=f"node-{chance.randrange(4)}"))
    if fate == 2:
        return replace(old, status=replace(old.status, phase="Succeeded"))
    if fate == 3:
        return replace(old, metadata=replace(old.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    return old
