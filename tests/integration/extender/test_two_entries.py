# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scheduler with two entries in ``extenders``: one for scores, and one for preemption that keeps PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.cluster import Cluster
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.test_preemption import uids, wait_for_later_pod
from tests.integration.extender.traffic import NODE_EXPORTER_PORT, PROFILE, Traffic, running_traffic, settings
from tests.integration.rescue.conftest import preempting_cluster as cluster
from tests.integration.rescue.scene import Scene
from tests.integration.workloads import wait_until

__all__ = ["cluster"]

SCORES = {"prioritizeVerb": "prioritize", "weight": 10, "ignorable": True, "httpTimeout": "500ms"}
PREEMPTION = {"preemptVerb": "preempt", "ignorable": False, "httpTimeout": "2s"}


class Extenders(NamedTuple):
    """The extenders of the scheduler with the name ``profile``. They can be the same."""

    profile: str
    scores: Extender
    budgets: Extender


@pytest.fixture
def scene(cluster: Cluster) -> Iterator[Scene]:
    """Three nodes that no other pods may use. The second one has no traffic."""
    made = Scene(cluster)
    made.nodes(3)
    yield made
    made.close()


@pytest.fixture
def traffic(lab_cluster: Cluster, scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    # The nodes of a scene have the addresses of other nodes.
    labels = {name: f"{name}:{NODE_EXPORTER_PORT}" for name in scene.node_names}
    with running_traffic(lab_cluster, tmp_path_factory.mktemp("prometheus"), labels) as running:
        running.set_quiet(scene.node_names[1])
        yield running


@pytest.fixture(params=["one-process", "two-processes"])
def extenders(
    request: pytest.FixtureRequest, start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path, scene: Scene
) -> Extenders:
    """Extenders that know the traffic. One of them keeps budgets."""
    profile: str = request.param
    made = settings(traffic, str(extender_kubeconfig))
    (network_traffic,) = made["profiles"].pop(PROFILE)["agents"]
    budgets = {"name": "budgets"}
    if profile == "one-process":
        scores = keeper = start_extender({**made, "profiles": {profile: {"agents": [network_traffic, budgets]}}})
    else:
        scores = start_extender({**made, "profiles": {profile: {"agents": [network_traffic]}}})
        keeper = start_extender({"profiles": {profile: {"agents": [budgets]}}})
    quiet = scene.node_names[1]

    def is_settled() -> bool:
        return [name for name, score in scores.scores(scene.node_names, profile).items() if score == 10] == [quiet]

    wait_until(is_settled, what="the score of the quiet node")
    return Extenders(profile, scores, keeper)


def test_pods_follow_the_scores_and_preemption_keeps_the_budgets(
    extenders: Extenders, start_scheduler: StartScheduler, scene: Scene
) -> None:
    profile = extenders.profile
    start_scheduler(extenders.scores, profiles=(profile,), also=[(extenders.budgets, PREEMPTION)], **SCORES)
    first, quiet, free = scene.node_names
    assert [bind(scene, f"pod-{number}", profile) for number in range(2)] == [quiet] * 2
    for name, node in (("one", first), ("two", quiet), ("three", free)):
        scene.occupant(name, node, cpu="800m", priority="scene-low")
    for name in ("one", "two"):
        scene.budget(name, name, allowed=0, replicas=1)
    protected, victim = uids(scene, "one", "two"), uids(scene, "three")
    pod = scene.critical("high", cpu="600m", schedulerName=profile, wait=False)
    wait_until(lambda: scene.bound_to(pod) == free, what="the pod on the node without a budget")
    assert uids(scene, "one", "two") == protected and not victim & uids(scene, "three")
    # For the next pod there are only nodes whose budgets allow no disruption.
    second = scene.critical("second", cpu="600m", schedulerName=profile)
    wait_for_later_pod(scene, "later", profile)
    assert not scene.bound_to(second) and not scene.nominated(second) and uids(scene, "one", "two") == protected
    assert extenders.scores.metric("requests_total", verb="prioritize") >= 2
    assert extenders.budgets.metric("requests_total", verb="preempt") >= 1

    # Without the extenders pods are bound, and nothing is preempted.
    for extender in {extenders.scores, extenders.budgets}:
        extender.kill()
    assert bind(scene, "without-extender", profile)
    third = scene.critical("third", cpu="600m", schedulerName=profile)
    wait_for_later_pod(scene, "last", profile)
    assert not any(scene.bound_to(pod) or scene.nominated(pod) for pod in (second, third)) and uids(scene, "one", "two") == protected


def bind(scene: Scene, name: str, profile: str) -> str:
    """Create a small pod, and return the node to which the scheduler has bound it."""
    pod = scene.critical(name, cpu="50m", priority="scene-middle", schedulerName=profile, wait=False)
    wait_until(lambda: scene.bound_to(pod), what=f"the node of {pod}")
    return scene.bound_to(pod)
