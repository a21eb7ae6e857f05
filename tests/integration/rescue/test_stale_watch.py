# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evictions on the real API server while the watch is behind, and answers to evictions that are lost or say that the pod is gone.

A cache that has been stopped shows its last state: a watch that is behind for as long as a test needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.attempts import RescueAttempts
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.case import Case
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.lease import RescueLease, identity
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.request import rescue_options
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rescue.rescuer import Rescuer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube import client
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.errors import UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.watch_cache import WatchCache

from tests.integration.rescue.rescues import QUICK, Rescues, victims
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.workloads import wait_until

UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


class LosingApi(KubeApi):
    """The real API server; the answers to the first ``lost`` evictions do not arrive."""

    lost = 0

    def evict(self, namespace: str, name: str, **how: Any) -> None:
        super().evict(namespace, name, **how)
        if not how.get("dry_run") and self.lost:
            self.lost -= 1
            raise UnreachableError("the connection was closed before the answer came")

    def in_haste(self, **_bounds: float) -> KubeApi:
        return self


class Killed(BaseException):
    """The program ends here, without any last words."""


class Program:
    """A rescuer in this process."""

    def __init__(self, scene: Scene, name: str, **options: Any) -> None:
        self.api = LosingApi(client.connect(kubeconfig=str(scene.cluster.kubeconfig), user_agent="stale-watch"))
        self.cache = WatchCache(self.api)
        self.lease = RescueLease(self.api, identity())
        self.rescuer = Rescuer(
            self.api,
            self.cache,
            rescue_options({**QUICK, **options}),
            lease=self.lease,
            attempts=RescueAttempts(self.api),
            writer="test",
            selected=lambda pod: pod.metadata.name == name,
        )
        self.cache.start()
        assert self.lease.acquire(30)

    @property
    def case(self) -> Case:
        (case,) = self.rescuer.cases.values()
        return case

    def tick_until(self, condition: Callable[[], Any], timeout_s: float = 40) -> None:
        def ticked() -> bool:
            self.rescuer.tick()
            return bool(condition())

        wait_until(ticked, what="the state of the rescue", timeout_s=timeout_s)


@contextmanager
def program(scene: Scene, name: str, **options: Any) -> Iterator[Program]:
    found = Program(scene, name, **options)
    try:
        yield found
    finally:
        try:
            found.rescuer.give_back_all()
        finally:
            found.lease.release()
            found.cache.stop()


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
            found.rescuer.tick()
    assert len(scene.evictions()) == evicted


def test_pod_that_is_gone_before_its_eviction_makes_room_and_no_other_pod_is_evicted(scene: Scene) -> None:
    first, second = scene.nodes(2)
    scene.bare("tenant", first, cpu="800m", priority="scene-low")
    scene.occupant("web", second, cpu="800m", priority="scene-middle")
    pod = scene.critical("dns")
    with program(scene, pod, allow_bare_pods=True) as found:
        found.cache.stop()
        scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/tenant", {"gracePeriodSeconds": 0})
        for _tick in range(3):
            found.rescuer.tick()
        assert found.case.status == "waiting" and found.case.evicted == [], found.case
    assert scene.evictions() == []


def test_evictions_whose_answers_are_lost_are_reported_and_count(scene: Scene) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="450m", replicas=2)
    pod = scene.critical("dns", cpu="800m")
    with program(scene, pod, max_victims=2) as found:
        found.api.lost = 2
        found.tick_until(lambda: found.case.has_ended)
        names = {victim.pod.metadata.name for victim in found.case.evicted}
        assert found.case.status == "rescued" and names == set(scene.evictions()) and len(names) == 2


def test_program_that_takes_over_reports_what_the_killed_one_evicted(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="450m", replicas=2)
    pod = scene.critical("dns", cpu="800m")
    killed = Program(scene, pod, max_victims=2)
    evict = killed.api.evict

    def evict_once(namespace: str, name: str, **how: Any) -> None:
        if not how.get("dry_run") and killed.case.evicted:
            raise Killed
        evict(namespace, name, **how)

    killed.api.evict = evict_once  # type: ignore[method-assign]
    with pytest.raises(Killed):
        killed.tick_until(lambda: False)
    killed.lease.release()
    killed.cache.stop()
    assert len(scene.evictions()) == 1 and scene.held() == [node]
    time.sleep(2)  # the first victim is gone by now
    row = rescues.one(pod, max_victims=2)
    assert (row["status"], row["node"], victims(row), len(row["victims"])) == ("rescued", node, {"web"}, 2)
    assert {victim["name"] for victim in row["victims"]} == set(scene.evictions()) and scene.held() == []
