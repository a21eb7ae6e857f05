# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""``--diff`` shows what a hold changes on its node, and the victims by node. Check mode shows what would change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.rescue.rescues import Json, Rescues
from tests.integration.rescue.scene import SYSTEM, Scene

HOLD = "kube-scheduling.onprem/hold"
FOREIGN = {"key": "example.org/special", "value": "yes", "effect": "PreferNoSchedule"}


def taints_of(side: Json) -> list[Json]:
    found: list[Json] = side["spec"]["taints"]
    return found


def annotations_of(side: Json) -> dict[str, str]:
    found: dict[str, str] = side["metadata"]["annotations"]
    return found


def check_hold(change: Json, node: str, pod: str, *, header: str, foreign: list[Json], tainted: bool = True) -> Json:
    """Check the sides without and with the hold. Return the hold in the annotation."""
    assert change["before_header"] == change["after_header"] == f"Node {node}, {header} pod {SYSTEM}/{pod}"
    without, held = (change["before"], change["after"]) if header == "held for" else (change["after"], change["before"])
    assert (taints_of(without), annotations_of(without)) == (foreign, {})
    assert set(annotations_of(held)) == {HOLD}
    hold: Json = json.loads(annotations_of(held)[HOLD])
    taint = {"key": hold["key"], "value": hold["value"], "effect": "NoSchedule"}
    assert hold["pod"] == pod and taints_of(held) == [*foreign, *([taint] if tainted else [])]
    return hold


def check_victims(change: Json, pod: str, by_node: dict[str, list[str]]) -> None:
    assert change["before_header"] == change["after_header"] == f"pods evicted for pod {SYSTEM}/{pod}"
    assert (change["before"], change["after"]) == ({"pods": by_node}, {"pods": {name: [] for name in by_node}})


@pytest.mark.parametrize("tolerates", [True, False])
def test_diff_is_the_hold_and_the_victims_and_in_a_run_the_release(scene: Scene, rescues: Rescues, tolerates: bool) -> None:
    """Without the toleration the hold is a nomination, and the taints stay as they are."""
    (node,) = scene.nodes(taints=(FOREIGN,))
    scene.occupant("web", node, cpu="800m")
    (victim,) = (one["metadata"]["name"] for one in scene.pods("web"))
    pod = scene.critical("dns", tolerates=tolerates)
    held: dict[str, Any] = {"header": "held for", "foreign": [FOREIGN], "tainted": tolerates}
    planned, evictions = rescues.run(name=pod, check_mode=True, diff=True)["diff"]
    check_hold(planned, node, pod, **held)
    check_victims(evictions, pod, {node: [f"{scene.namespace}/{victim}"]})
    assert scene.held() == [] and taints(scene, node) == [FOREIGN]

    placed, evictions, released = rescues.run(name=pod, diff=True)["diff"]
    hold = check_hold(placed, node, pod, **held)
    check_victims(evictions, pod, {node: [f"{scene.namespace}/{victim}"]})
    assert check_hold(released, node, pod, **{**held, "header": "released from"}) == hold
    assert taints(scene, node) == [FOREIGN] and scene.held() == []


def test_diff_of_state_released_is_the_hold_of_each_node_as_it_was(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=25)
    pod = scene.critical("dns")
    placed, _evictions = rescues.run(name=pod, wait=False, diff=True)["diff"]
    hold = check_hold(placed, node, pod, header="held for", foreign=[])
    assert json.loads(scene.node(node)["metadata"]["annotations"][HOLD]) == hold
    assert taints(scene, node) == taints_of(placed["after"])
    for check_mode in (True, False):
        (released,) = rescues.run(state="released", check_mode=check_mode, diff=True)["diff"]
        assert check_hold(released, node, pod, header="released from", foreign=[]) == hold
    assert scene.held() == []
    assert rescues.run(state="released", diff=True)["diff"] == []
    assert "diff" not in rescues.run(state="released")


def test_module_returns_the_diff_only_if_ansible_asks_for_it(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    planned = rescues.module(name=pod, check_mode=True, diff=True)
    check_hold(planned["diff"][0], node, pod, header="held for", foreign=[])
    assert "diff" not in rescues.module(name=pod, check_mode=True)


def taints(scene: Scene, node: str) -> list[Json]:
    """The taints of the node without those of the node controller."""
    return [taint for taint in scene.taints(node) if not taint["key"].startswith("node.kubernetes.io/")]
