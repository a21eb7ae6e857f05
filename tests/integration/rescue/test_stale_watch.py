# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions on the real API server while the watch is behind, and answers to evictions that are lost or say that the pod is gone.

A cache that has been stopped shows its last state: a watch that is behind for as long as a test needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.rescue.program import Program, program
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.workloads import wait_until

UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


class Killed(BaseException):
    """The program ends here, without any last words."""


def annotate_victim(scene: Scene, _pod: str, _node: str) -> None:
    (web,) = scene.pods("web")
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{web['metadata']['name']}"
    scene.api.merge_patch(path, {"metadata": {"annotations": UNSAFE}})


def delete_critical_pod(scene: Scene, pod: str, _node: str) -> None:
    scene.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/pods/{pod}", {"gracePeriodSeconds": 0})


def cordon(scene: Scene, _pod: str, node: str) -> None:
    scene.api.merge_patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})


def nothing(_scene: Scene, _pod: str, _node: str) -> None:
    """The watch is not behind."""


@pytest.mark.parametrize(("change", "evicted"), [(annotate_victim, 0), (delete_critical_pod, 0), (cordon, 0), (nothing, 1)])
def test_what_the_watch_does_not_show_yet_stops_the_eviction(scene: Scene, change: Callable[..., None], evicted: int) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    with program(scene, pod) as found:
        found.cache.stop()
        change(scene, pod, node)
        for _tick in range(3):
            found.controller.reconcile()
    assert len(scene.evictions()) == evicted


def test_no_other_pod_is_evicted_if_the_victim_is_gone_before_its_eviction(scene: Scene) -> None:
    first, second = scene.nodes(2)
    scene.bare("tenant", first, cpu="800m", priority="scene-low")
    scene.occupant("web", second, cpu="800m", priority="scene-middle")
    pod = scene.critical("dns")
    with program(scene, pod, allow_bare_pods=True) as found:
        found.cache.stop()
        scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/tenant", {"gracePeriodSeconds": 0})
        for _tick in range(3):
            found.controller.reconcile()
        assert found.task.status == "waiting" and found.task.evicted == [], found.task
    assert scene.evictions() == []


def test_evictions_whose_answers_are_lost_are_reported_and_count(scene: Scene) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="450m", replicas=2)
    pod = scene.critical("dns", cpu="800m")
    with program(scene, pod, max_victims=2) as found:
        found.api.lost = 2
        found.tick_until(lambda: found.task.is_finished)
        names = {victim.pod.metadata.name for victim in found.task.evicted}
        assert found.task.status == "rescued" and names == set(scene.evictions()) and len(names) == 2


def test_program_that_takes_over_reports_what_the_killed_one_evicted(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="450m", replicas=2)
    pod = scene.critical("dns", cpu="800m")
    killed = Program(scene, pod, max_victims=2)
    evict = killed.api.evict

    def evict_once(namespace: str, name: str, **how: Any) -> None:
        if not how.get("dry_run") and killed.task.evicted:
            raise Killed
        evict(namespace, name, **how)

    killed.api.evict = evict_once  # type: ignore[method-assign]
    with pytest.raises(Killed):
        killed.tick_until(lambda: False)
    killed.lease.release()
    killed.cache.stop()
    (evicted,) = scene.evictions()
    assert scene.held() == [node]
    wait_until(lambda: not scene.api.find(f"/api/v1/namespaces/{scene.namespace}/pods/{evicted}"), what="the end of the first victim")
    row = rescues.one(pod, max_victims=2)
    assert (row["status"], row["node"], victims(row), len(row["victims"])) == ("rescued", node, {"web"}, 2)
    assert {victim["name"] for victim in row["victims"]} == set(scene.evictions()) and scene.held() == []
