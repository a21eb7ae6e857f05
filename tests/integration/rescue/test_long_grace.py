# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terminating pods with long grace periods and with finalizers, which any tenant can make: they block no rescue."""

from __future__ import annotations

import time

import pytest

from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import Scene
from tests.integration.workloads import wait_until

YEAR_S = 365 * 24 * 3600
BEYOND_S = 300_000_000_000
"""kubectl takes it as well. What the API server makes of it is no time that is near."""
HANG = {"lab.onprem/on-delete": "hang"}


def delete(scene: Scene, name: str, grace_s: int) -> None:
    """Delete a bare pod of the scene, which stays for its grace period."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods/{name}"
    scene.api.request("DELETE", path, {"gracePeriodSeconds": grace_s})
    wait_until(lambda: scene.cluster.get(path)["metadata"].get("deletionTimestamp"), what=f"the deletion of {name}")


@pytest.mark.parametrize("grace_s", [60, YEAR_S, BEYOND_S])
def test_deleted_pod_with_a_long_grace_period_does_not_block_a_rescue(scene: Scene, rescues: Rescues, grace_s: int) -> None:
    first, second = scene.nodes(2)
    scene.bare("tenant", first, cpu="800m")
    delete(scene, "tenant", grace_s)
    scene.occupant("web", second, cpu="800m", priority="scene-low")
    row = rescues.one(scene.critical("dns"), wait_timeout=10)
    assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"web"})
    assert len(scene.evictions()) == 1 and scene.held() == []


def test_deleted_pod_whose_grace_period_is_nearly_over_is_waited_for(scene: Scene, rescues: Rescues) -> None:
    first, second = scene.nodes(2)
    scene.bare("tenant", first, cpu="800m")
    delete(scene, "tenant", 4)
    scene.occupant("web", second, cpu="800m", priority="scene-low")
    row = rescues.one(scene.critical("dns"))
    assert (row["status"], row["node"], row["victims"]) == ("rescued", first, [])
    assert scene.evictions() == []


def test_long_grace_period_that_is_shortened_later_makes_the_pod_count_as_leaving(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.bare("tenant", node, cpu="800m")
    delete(scene, "tenant", YEAR_S)
    pod = scene.critical("dns")
    plan = rescues.run(name=pod, check_mode=True)["pods"][0]
    assert plan["status"] == "impossible" and "terminating" in {blocker["reason"] for blocker in plan["blockers"]}
    delete(scene, "tenant", 5)
    plan = rescues.run(name=pod, check_mode=True)["pods"][0]
    assert plan["status"] in ("waiting", "rescued") and not plan["victims"], plan
    wait_until(lambda: scene.bound_to(pod) == node, what="the pod on its node")


def test_foreign_pod_that_stays_on_a_node_being_cleared_ends_the_clearing(scene: Scene, rescues: Rescues) -> None:
    """A tenant that may write nodeName takes the capacity, and deletes its pod with a grace period of a year."""
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="800m", grace=8)
    scene.occupant("batch", second, cpu="800m", priority="scene-middle")
    pod = scene.critical("dns")
    process = rescues.start(name=pod, wait_timeout=120)
    wait_until(lambda: scene.held() == [first] and scene.evictions(), what="the eviction")
    scene.bare("tenant", first, cpu="600m", nodeName=first)
    delete(scene, "tenant", YEAR_S)
    began_s = time.monotonic()
    (row,) = rescues.result(process)["pods"]
    assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"web", "batch"})
    assert time.monotonic() - began_s < 60 and scene.held() == []


def test_finalizers_that_keep_many_deleted_pods_do_not_block_a_rescue(scene: Scene, rescues: Rescues) -> None:
    """Each pod that hangs is followed by the next that is just being deleted: the rescue waits for one of them at most."""
    *full, last = scene.nodes(5)
    paths = []
    for number, node in enumerate(full):
        scene.bare(f"tenant{number}", node, cpu="800m")
        paths.append(f"/api/v1/namespaces/{scene.namespace}/pods/tenant{number}")
        scene.api.merge_patch(paths[-1], {"metadata": {"finalizers": ["example.com/never"], "annotations": HANG}})
    scene.occupant("web", last, cpu="800m", priority="scene-low")
    pod = scene.critical("dns")
    process = rescues.start(name=pod, wait_timeout=120, grace_period=1)
    try:
        for number in range(len(full)):
            if scene.bound_to(pod):
                break
            delete(scene, f"tenant{number}", 2)
            deadline_s = time.monotonic() + 14
            while time.monotonic() < deadline_s and not scene.bound_to(pod):
                time.sleep(0.5)
        else:
            raise AssertionError(f"each deleted pod was waited for: {rescues.result(process)}")
        (row,) = rescues.result(process)["pods"]
        assert (row["status"], row["node"], victims(row)) == ("rescued", last, {"web"})
    finally:
        for path in paths:
            scene.api.merge_patch(path, {"metadata": {"finalizers": None}})
