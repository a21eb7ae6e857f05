# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run with ``wait: false`` begins a rescue. Its node stays held until the next run, a rescuer or ``state: released``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.workloads import wait_until

pytestmark = pytest.mark.never_repeated

Json = dict[str, Any]


def begin(scene: Scene, rescues: Rescues, pod: str, node: str) -> Json:
    """Run the module with ``wait: false``, and check that the rescue has begun."""
    result = rescues.module(label_selectors=[f"scene={scene.id}"], wait=False, grace_period="60s", wait_timeout="5m")
    (row,) = [row for row in result["pods"] if row["name"] == pod]
    assert (row["status"], row["reason"], row["node"]) == ("waiting", "rescue_begun", node), row
    assert result["changed"] and not result.get("failed") and result["released"] == []
    assert scene.bound_to(pod) == "" and scene.held() == [node]
    return result


def test_the_next_run_completes_a_begun_rescue_and_evicts_no_further_pod(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("quick", node, cpu="400m", grace=1)
    scene.occupant("slow", node, cpu="400m", grace=40)  # the last run has to wait for it
    pod = scene.critical("dns", cpu="900m")
    (row,) = begin(scene, rescues, pod, node)["pods"]
    assert victims(row) == {"quick", "slow"}
    evicted = scene.evictions()
    again = rescues.run(label_selector=f"scene={scene.id}", wait=False, grace_period=60)
    assert not again["changed"] and again["pods"][0]["status"] == "waiting" and scene.held() == [node]
    done = rescues.run(label_selector=f"scene={scene.id}", grace_period=60, wait_timeout=120)
    assert [(row["status"], row["reason"]) for row in done["pods"]] == [("rescued", "bound")], done
    assert [entry["node"] for entry in done["released"]] == [node]
    assert scene.bound_to(pod) == node and scene.held() == []
    assert sorted(scene.evictions()) == sorted(evicted) and len(evicted) == 2


def test_a_rescuer_completes_a_begun_rescue(scene: Scene, rescues: Rescues, daemons: Start) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=60)
    pod = scene.critical("dns")
    begin(scene, rescues, pod, node)
    daemon = daemons("--grace-period=60s", "--settle-time=0")
    wait_until(lambda: daemon.metric("pending_critical_pods", status="clearing") == 1, what="the rescue")
    scene.end_terminating("web")
    wait_until(lambda: scene.bound_to(pod) == node, timeout_s=120, what=lambda: f"the binding; {daemon.log.read_text()}")
    wait_until(lambda: scene.held() == [], timeout_s=60, what=lambda: f"the release of the node; {daemon.log.read_text()}")
    assert len(scene.evictions()) == 1


def test_the_next_run_releases_the_node_of_a_pod_that_was_bound_after_the_first_run(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=60)
    pod = scene.critical("dns")
    begin(scene, rescues, pod, node)
    scene.end_terminating("web")
    wait_until(lambda: scene.bound_to(pod) == node, timeout_s=120, what="the binding by the scheduler")
    assert scene.held() == [node]
    result = rescues.run(label_selector=f"scene={scene.id}")
    assert [entry["node"] for entry in result["released"]] == [node]
    assert scene.bound_to(pod) == node and scene.held() == []


def test_a_release_of_all_nodes_ends_a_begun_rescue(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=30)
    pod = scene.critical("dns")
    begin(scene, rescues, pod, node)
    plan = rescues.run(state="released", check_mode=True)
    assert node in [entry["node"] for entry in plan["released"]] and scene.held() == [node]
    result = rescues.run(state="released")
    assert node in [entry["node"] for entry in result["released"]] and scene.held() == []
