# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An admission webhook that takes 25 seconds for an eviction, which is longer than the Lease of the rescuer that asks for it."""

from __future__ import annotations

import threading

import pytest

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction
from tests.integration.rescue.scene import Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.test_rescuer import leader_and_follower, wait_bound, wait_free
from tests.integration.workloads import wait_until

SLEEP_S = 25.0
"""The longest time for an answer. The API server waits for 30 seconds."""


class SlowOnce:
    """The first real eviction of a pod of app ``slow`` takes so long that nobody waits for its answer; all others are let through."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.released = threading.Event()
        self.answered = threading.Event()

    def decide(self, review: Review) -> None:
        if is_eviction(review) and not review.get("dryRun") and review["name"].startswith("slow") and not self.asked.is_set():
            self.asked.set()
            self.released.wait(SLEEP_S)
            self.answered.set()


def given_up(cluster: Cluster, scene: Scene) -> list[int]:
    """The statuses with which the server has ended evictions of app ``slow`` that it did not grant."""
    events = cluster.audit().events(since=scene.mark, verb="create", resource="pods")
    evictions = [event for event in events if event.subresource == "eviction" and event.name.startswith("slow")]
    return [event.code for event in evictions if "dryRun" not in event.path and event.code != 201]


@pytest.mark.parametrize("killed", [False, True])
def test_a_slow_webhook_delays_no_other_rescue_and_evicts_no_second_pod(
    scene: Scene, cluster: Cluster, daemons: Start, killed: bool
) -> None:
    leader, follower = leader_and_follower(daemons)
    first, second = scene.nodes(2)
    scene.occupant("slow", first, cpu="400m", replicas=2)
    scene.occupant("quick", second, cpu="800m")
    slow = SlowOnce()
    with admission_webhook(cluster, f"slow-{scene.id}", scene.namespace, slow.decide):
        behind = scene.critical("behind", node=first, cpu="500m")
        assert slow.asked.wait(120), "no eviction was asked for"
        beside = scene.critical("beside", node=second, cpu="500m")
        wait_bound(scene, beside, second, leader)
        assert not slow.answered.is_set(), "the other rescue has waited for the webhook"
        if killed:
            leader.kill()
        wait_bound(scene, behind, first, follower if killed else leader, timeout_s=60)
        slow.released.set()
        assert slow.answered.wait(SLEEP_S + 5)
        wait_until(lambda: given_up(cluster, scene), what="the server's end of the slow eviction")
    evicted = [name.partition("-")[0] for name in scene.evictions()]
    assert sorted(evicted) == ["quick", "slow"], evicted
    assert len(scene.pods("slow")) == 2 and 201 not in given_up(cluster, scene)
    wait_free(scene)
