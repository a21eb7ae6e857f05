# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capacity that becomes free in parts: the pod is nominated beside the taint, so that pods that tolerate the taint do not take a part."""

from __future__ import annotations

import pytest

from tests.integration.kubernetes_version import needs_kubernetes
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import HOLD_KEY, Scene, nomination_when_bound
from tests.integration.rescue.test_interrupted import in_background
from tests.integration.workloads import wait_until

pytestmark = pytest.mark.never_repeated

EVERYTHING = {"operator": "Exists"}


def wait_for_the_first_part(scene: Scene, node: str, pod: str) -> None:
    """One of two victims has ended, and the pod is nominated again after the attempt that this made the scheduler do."""
    wait_until(lambda: len(scene.evictions()) == 2, what="both evictions")
    wait_until(lambda: not [item for item in scene.pods("brief") if item["spec"].get("nodeName")], what="the end of the first victim")
    wait_until(lambda: scene.nominated(pod) == node, what="the nomination")


@pytest.mark.parametrize("hold", ["auto", "taint"])
def test_pod_that_tolerates_the_taint_does_not_take_the_capacity_of_the_first_victim(scene: Scene, rescues: Rescues, hold: str) -> None:
    (node,) = scene.nodes(cpu="1")
    scene.occupant("brief", node, cpu="500m", grace=1)
    scene.occupant("long", node, cpu="500m", grace=30)
    pod = scene.critical("dns", cpu="900m")
    running = in_background(lambda: rescues.run(name=pod, hold=hold, wait_timeout=120))
    wait_for_the_first_part(scene, node, pod)
    small = scene.critical("small", cpu="400m", priority="scene-low", tolerations=[EVERYTHING])
    assert scene.bound_to(small) == ""
    scene.end_terminating("long")
    (row,) = running.result(120)["pods"]
    assert (row["status"], victims(row)) == ("rescued", {"brief", "long"}) and scene.held() == []
    assert scene.nominated(pod) == nomination_when_bound(node) and scene.bound_to(pod) == node


def test_pod_does_not_take_the_capacity_of_the_first_victim_on_a_node_that_a_user_has_reserved_for_add_ons(
    scene: Scene, rescues: Rescues
) -> None:
    """The taint of such a node is not the rescue's, and its pods tolerate it."""
    taint = {"key": HOLD_KEY, "value": "true", "effect": "NoSchedule"}
    (node,) = scene.nodes(cpu="1", taints=(taint,))
    scene.bare("brief", node, cpu="500m", grace=1, tolerations=[EVERYTHING])
    scene.bare("long", node, cpu="500m", grace=30, tolerations=[EVERYTHING])
    before, pod = scene.taints(node), scene.critical("dns", cpu="900m")
    running = in_background(lambda: rescues.run(name=pod, allow_bare_pods=True, wait_timeout=120))
    wait_until(lambda: len(scene.evictions()) == 2, what="both evictions")
    wait_until(lambda: not scene.bound_to("brief", scene.namespace), what="the end of the first victim")
    wait_until(lambda: scene.nominated(pod) == node or scene.bound_to(pod), what="the nomination")
    small = scene.critical("small", cpu="400m", priority="scene-low", tolerations=[EVERYTHING])
    assert scene.bound_to(small) == ""
    scene.end_terminating("long")
    (row,) = running.result(120)["pods"]
    evicted = {victim["name"] for victim in row["victims"]}
    assert (row["status"], row["node"], evicted) == ("rescued", node, {"brief", "long"}), row
    assert scene.taints(node) == before and scene.nominated(pod) == nomination_when_bound(node) and scene.bound_to(pod) == node


def test_pod_is_nominated_again_after_each_failed_attempt(scene: Scene, rescues: Rescues) -> None:
    needs_kubernetes("1.35", "a nomination that ends when an attempt of the scheduler fails")
    (node,) = scene.nodes(cpu="1")
    scene.occupant("brief", node, cpu="500m", grace=1)
    scene.occupant("long", node, cpu="500m", grace=30)
    pod = scene.critical("dns", cpu="900m")
    mark = scene.cluster.audit().mark()
    running = in_background(lambda: rescues.run(name=pod, wait_timeout=120))
    wait_for_the_first_part(scene, node, pod)

    def nominations() -> int:
        patches = scene.cluster.audit().events(since=mark, verb="patch", resource="pods", user_agent="onprem.kube_scheduling")
        return sum(event.subresource == "status" and event.name == pod and event.code == 200 for event in patches)

    wait_until(lambda: nominations() >= 2, what="a second nomination: the end of the first victim makes the scheduler try the pod")
    scene.end_terminating("long")
    (row,) = running.result(120)["pods"]
    assert row["status"] == "rescued"
