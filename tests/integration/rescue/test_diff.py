# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--diff`` shows what a hold changes on its node, and the victims by node. Check mode shows what would change."""

from __future__ import annotations

import hashlib
import json
import re

from tests.integration.rescue.rescues import Json, Rescues
from tests.integration.rescue.scene import HOLD_ANNOTATION, HOLD_KEY, SYSTEM, Scene

FOREIGN = {"key": "example.org/special", "value": "yes", "effect": "PreferNoSchedule"}


def taints_of(side: Json) -> list[Json]:
    """Return the taints of a side, which has nothing else."""
    assert set(side) == {"spec"} and set(side["spec"]) == {"taints"}
    found: list[Json] = side["spec"]["taints"]
    return found


def check_hold(scene: Scene, change: Json, node: str, pod: str, *, header: str, foreign: list[Json]) -> Json:
    """Check the sides without and with the hold. Return the taint of the hold."""
    assert change["before_header"] == change["after_header"] == f"Node {node}, {header} pod {SYSTEM}/{pod}"
    without, held = (change["before"], change["after"]) if header == "held for" else (change["after"], change["before"])
    *others, taint = taints_of(held)
    assert taints_of(without) == others == foreign
    uid = scene.cluster.get(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}")["metadata"]["uid"]
    pod_hash = hashlib.sha256(f"{SYSTEM}/{pod}/{uid}".encode()).hexdigest()[:16]
    assert (taint["key"], taint["effect"]) == (HOLD_KEY, "NoSchedule")
    assert re.fullmatch(rf"rescue-{pod_hash}-until-\d{{10}}", taint["value"])
    return taint


def check_victims(change: Json, pod: str, by_node: dict[str, list[str]]) -> None:
    assert change["before_header"] == change["after_header"] == f"pods evicted for pod {SYSTEM}/{pod}"
    assert (change["before"], change["after"]) == ({"pods": by_node}, {"pods": {name: [] for name in by_node}})


def test_diff_is_the_hold_and_the_victims_and_in_a_run_the_release(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes(taints=(FOREIGN,))
    scene.occupant("web", node, cpu="800m")
    (victim,) = (one["metadata"]["name"] for one in scene.pods("web"))
    pod = scene.critical("dns")
    planned, evictions = rescues.run(name=pod, check_mode=True, diff=True)["diff"]
    check_hold(scene, planned, node, pod, header="held for", foreign=[FOREIGN])
    check_victims(evictions, pod, {node: [f"{scene.namespace}/{victim}"]})
    assert scene.held() == [] and taints(scene, node) == [FOREIGN]

    placed, evictions, released = rescues.run(name=pod, diff=True)["diff"]
    taint = check_hold(scene, placed, node, pod, header="held for", foreign=[FOREIGN])
    check_victims(evictions, pod, {node: [f"{scene.namespace}/{victim}"]})
    assert check_hold(scene, released, node, pod, header="released from", foreign=[FOREIGN]) == taint
    assert taints(scene, node) == [FOREIGN] and scene.held() == []


def test_diff_without_the_toleration_has_only_the_victims(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    (victim,) = (one["metadata"]["name"] for one in scene.pods("web"))
    pod = scene.critical("dns", tolerates=False)
    for check_mode in (True, False):
        (evictions,) = rescues.run(name=pod, check_mode=check_mode, diff=True)["diff"]
        check_victims(evictions, pod, {node: [f"{scene.namespace}/{victim}"]})


def test_diff_of_state_released_is_the_hold_of_each_node_as_it_was(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=25)
    pod = scene.critical("dns")
    placed, _evictions = rescues.run(name=pod, wait=False, diff=True)["diff"]
    taint = check_hold(scene, placed, node, pod, header="held for", foreign=[])
    assert taints(scene, node) == [taint]
    assert json.loads(scene.node(node)["metadata"]["annotations"][HOLD_ANNOTATION])["pod"] == f"{SYSTEM}/{pod}"
    for check_mode in (True, False):
        (released,) = rescues.run(state="released", check_mode=check_mode, diff=True)["diff"]
        assert check_hold(scene, released, node, pod, header="released from", foreign=[]) == taint
    assert scene.held() == []
    assert rescues.run(state="released", diff=True)["diff"] == []
    assert "diff" not in rescues.run(state="released")


def test_module_returns_the_diff_only_if_ansible_asks_for_it(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    for diff in (True, False):
        assert ("diff" in rescues.module(name=pod, check_mode=True, diff=diff)) == diff


def taints(scene: Scene, node: str) -> list[Json]:
    """The taints of the node without those of the node controller."""
    return [taint for taint in scene.taints(node) if not taint["key"].startswith("node.kubernetes.io/")]
