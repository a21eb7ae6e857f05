# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters from the plan to the binding, with the real scheduler, and every verdict compared with brute force.

RESCUE_CASES sets how many (20; 300 under SOAK=1), RESCUE_SEED the first seed: the same seed gives the same cluster.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport

from lab.cluster import Cluster
from tests.integration.conftest import SUMMARY
from tests.integration.rescue.budget_history import BudgetHistory
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.random_batches import batches, set_up
from tests.integration.rescue.random_clusters import random_cluster
from tests.integration.rescue.random_scene import RandomScene
from tests.integration.rescue.rescue_check import LOST, LOST_OTHERWISE, RescueCheck
from tests.integration.rescue.rescues import Rescues

__all__ = ["cluster"]

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("RESCUE_CASES", "300" if SOAK else "20"))
SEED = int(os.environ.get("RESCUE_SEED", str(time.time_ns() % 10**9) if SOAK else "5050"))
SMALLEST_SHARE = 0.1
"""A kind of verdict with a smaller share of many cases is hardly tested."""
MAX_LOST = 0.1
"""Share of the pods whose capacity is lost although no taint keeps the taker off."""
A_FEW = 2
"""So many are no sign of anything, however few pods there are."""
MANY = 20

pytestmark = [pytest.mark.timeout(0), pytest.mark.never_repeated]


@dataclass(frozen=True)
class Played:
    """The results of all cases."""

    seen: Counter[str]
    problems: list[str]
    summary: str

    @property
    def pods(self) -> int:
        """So many critical pods got a verdict."""
        return sum(self.seen[what] for what in ("rescued", "impossible", LOST_OTHERWISE))


@pytest.fixture(scope="module")
def played(cluster: Cluster) -> Played:
    """All cases, played once for all tests."""
    print(f"seed {SEED}")
    rescues = Rescues(cluster, cluster.service_account("rescues"))
    started = time.monotonic()
    seen: Counter[str] = Counter()
    problems: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        for seeds in batches(SEED, CASES):
            found = _play(cluster, rescues, seeds, pool, seen)
            print(f"up to seed {seeds[-1]}: {dict(seen)}", *found, sep="\n", flush=True)
            problems += found
    return Played(seen, problems, _summary(seen, time.monotonic() - started))


def test_verdicts_and_victims_are_those_of_brute_force(played: Played, record_property: Callable[[str, object], None]) -> None:
    assert not played.problems, "\n".join([played.summary, *played.problems])
    if CASES >= MANY:
        assert min(played.seen["rescued"], played.seen["impossible"]) > SMALLEST_SHARE * played.pods, played.summary
    record_property(SUMMARY, played.summary)


def test_no_capacity_is_lost_to_pods_that_do_not_tolerate_the_taint(played: Played) -> None:
    """Of all cases but those with ``hold: none``, also where the pod is rescued on another node later."""
    assert played.seen[LOST] == 0, played.summary


@pytest.mark.skipif(CASES < MANY, reason=f"a share of fewer than {MANY} cases says nothing")
def test_capacity_is_rarely_lost_with_hold_none_or_to_pods_that_tolerate_the_taint(played: Played) -> None:
    assert played.seen[LOST_OTHERWISE] <= max(A_FEW, MAX_LOST * played.pods), played.summary


def _play(cluster: Cluster, rescues: Rescues, seeds: range, pool: ThreadPoolExecutor, seen: Counter[str]) -> list[str]:
    """Return the errors of the cases of these seeds, each with the settings that repeat it."""
    scenes = list(pool.map(lambda seed: RandomScene(cluster, random_cluster(seed)), seeds))
    try:
        set_up(cluster, scenes, pool, (RandomScene.create_critical, RandomScene.is_pending))
        for scene in scenes:
            scene.remember_taints()
        history = BudgetHistory(cluster)
        checks = []
        api = KubeApi(open_transport(user_agent="random-clusters", kubeconfig=str(cluster.kubeconfig)))
        for scene in scenes:
            check = RescueCheck(scene, rescues, api)
            check.run()
            seen.update(check.seen)
            checks.append(check)
        breaches = history.breaches(scenes)
        return [
            f"RESCUE_CASES=1 RESCUE_SEED={check.scene.task.seed}: {text}"
            for check in checks
            for text in (*check.problems, *breaches[check.scene.id])
        ]
    finally:
        list(pool.map(lambda scene: scene.close(), scenes))


def _summary(seen: Counter[str], seconds: float) -> str:
    kinds = (
        "rescued",
        "impossible",
        "waiting",
        "placed by the scheduler",
        LOST,
        LOST_OTHERWISE,
        "evictions",
        "replacements evicted",
    )
    counts = ", ".join(f"{seen[what]} {what}" for what in kinds)
    return f"random clusters: {CASES} cases in {seconds:.0f} s, seed {SEED}: {counts}; minimality checked in {seen['minimal']} cases"
