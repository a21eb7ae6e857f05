# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescuer that is told to stop releases what it has not finished, and no hold of another program."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.admission_webhook import Review, admission_webhook, is_eviction
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.test_rescuer import LONG, LONG_S, full_node
from tests.integration.wire import Wire, wire
from tests.integration.workloads import wait_until


def hold_of_another_program(scene: Scene) -> str:
    """A node that is held for a pending pod of a namespace that this rescuer does not serve."""
    (node,) = scene.nodes(cpu="100m")
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "4"}}}
    spec = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": node}}
    scene.api.post(f"/api/v1/namespaces/{scene.namespace}/pods", {"metadata": {"name": "other"}, "spec": spec})
    scene.hold(node, "other", deadline_s=2_000_000_000, namespace=scene.namespace)
    return node


def test_a_stop_releases_only_its_own_unfinished_holds(scene: Scene, daemons: Start, rescues: Rescues) -> None:
    others = hold_of_another_program(scene)
    daemon = daemons("--stop-timeout=1s", LONG)
    wait_until(lambda: daemon.leads, what="a leader")
    own = full_node(scene, grace=LONG_S)
    pod = scene.critical("dns", node=own)
    wait_until(lambda: daemon.said("pod evicted"), what="an eviction")
    assert sorted(scene.held()) == sorted([own, others])
    assert daemon.stop() == 0
    assert scene.held() == [others] and scene.nominated(pod) == ""
    assert [entry["node"] for entry in rescues.run(state="released")["released"]] == [others] and scene.held() == []


def test_a_node_that_becomes_not_ready_is_released_and_another_one_is_cleared(scene: Scene, daemons: Start) -> None:
    daemon = daemons()
    wait_until(lambda: daemon.leads, what="a leader")
    first, second = scene.nodes(2)
    scene.occupant("low", first, cpu="800m", priority="scene-low", grace=8)
    scene.occupant("high", second, cpu="800m", priority="scene-high")
    pod = scene.critical("dns")
    wait_until(lambda: scene.held() == [first] and len(scene.evictions()) == 1, what="the eviction")
    scene.stop_kubelet(first)
    wait_until(lambda: scene.bound_to(pod) == second, what=lambda: f"the other node; {daemon.log.read_text()}")
    wait_until(lambda: scene.held() == [], what="free nodes")


@pytest.fixture
def lossy(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Wire, Path]]:
    with wire(cluster, tmp_path, user=cluster.service_account("rescuer")) as found:
        yield found


EVICTION_S = 2.5
"""The API server gives up an eviction that takes longer than the Lease surely lasts."""


class SlowOnce:
    """The first real eviction of a pod of app ``slow`` takes so long; the API server waits for it, and then evicts the pod."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = threading.Event()

    def decide(self, review: Review) -> None:
        if is_eviction(review) and review["name"].startswith("slow") and not self.asked.is_set():
            self.asked.set()
            threading.Event().wait(self.seconds)


@pytest.mark.parametrize(("stop_timeout", "terms"), [("20s", 1), ("1s", 1), ("20s", 2)])
def test_an_eviction_that_is_under_way_at_the_stop_is_the_only_one(
    scene: Scene, cluster: Cluster, daemons: Start, lossy: tuple[Wire, Path], stop_timeout: str, terms: int
) -> None:
    """The API server continues with the eviction when the leader has ended. The next leader may only evict another pod."""
    wire_to_server, kubeconfig = lossy
    leader = daemons(f"--stop-timeout={stop_timeout}", "--grace-period=10s", kubeconfig=kubeconfig)
    wait_until(lambda: leader.leads, what="a leader")
    follower = daemons("--grace-period=2s")
    first, second = scene.nodes(2)
    scene.occupant("slow", first, cpu="900m", grace=5)
    scene.occupant("other", second, cpu="900m", grace=1, priority="scene-high")
    slow = SlowOnce(EVICTION_S)
    wire_to_server.keep()
    with admission_webhook(cluster, f"stop-{scene.id}", scene.namespace, slow.decide):
        pod = scene.critical("dns")
        assert slow.asked.wait(60), f"no eviction was asked for; {leader.log.read_text()}"
        for _term in range(terms):
            leader.process.send_signal(signal.SIGTERM)
            wait_until(lambda: leader.said("stopping"), what="the beginning of the stop")
        assert leader.process.wait(60) == 0
        wait_until(lambda: scene.bound_to(pod) != "", timeout_s=90, what=lambda: f"a node for the pod; {follower.log.read_text()}")
    evicted = [name.partition("-")[0] for name in scene.evictions()]
    assert evicted == (["slow"] if scene.bound_to(pod) == first else ["other"]), evicted
    wait_until(lambda: scene.held() == [], timeout_s=60, what=lambda: f"free nodes; {follower.log.read_text()}")
