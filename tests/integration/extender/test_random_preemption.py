# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random clusters: with the agent ``budgets`` the stock scheduler's preemption never breaks a PodDisruptionBudget.

PREEMPTION_CASES sets how many (5; 200 under SOAK=1), PREEMPTION_SEED the first seed: the same seed gives the same cluster.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.cluster import Cluster
from tests.integration.conftest import SUMMARY
from tests.integration.extender.conftest import StartExtender, schedulers
from tests.integration.extender.preemption_scene import PreemptionScene
from tests.integration.rescue.budget_history import BudgetHistory
from tests.integration.rescue.random_batches import batches, set_up
from tests.integration.rescue.random_clusters import random_cluster
from tests.integration.rescue.scene import prepared_for_scenes

SOAK = os.environ.get("SOAK") == "1"
CASES = int(os.environ.get("PREEMPTION_CASES", "200" if SOAK else "5"))
SEED = int(os.environ.get("PREEMPTION_SEED", str(time.time_ns() % 10**9) if SOAK else "7070"))
MANY = 20
"""The number of cases from which some must need a preemption that breaks a budget."""
PROTECTED, UNPROTECTED = "keeps-budgets", "breaks-budgets"
COUNTS = ("pods bound", "pods waiting", "victims", "cases with victims", "cases with a breach")
"""The counts of the summary. A case is a cluster with one or more critical pods."""

pytestmark = pytest.mark.timeout(0)

Preempt = Callable[[PreemptionScene], None]


@pytest.fixture(scope="module")
def cluster(budget_safe_cluster: Cluster, start_extender: StartExtender, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose default scheduler preempts nothing, with a second scheduler that does and asks the extender."""
    extender = start_extender({"profiles": {PROTECTED: {"agents": [{"name": "budgets"}]}}})
    for made in prepared_for_scenes(budget_safe_cluster):
        for start in schedulers(made, tmp_path_factory):
            start(extender, profiles=(PROTECTED, UNPROTECTED), preemptVerb="preempt")
            yield made


def test_budgets_are_kept(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    seen: Counter[str] = Counter()
    breaches = play(cluster, PROTECTED, PreemptionScene.preempt_one_by_one, seen)
    summary = f"preemption with the agent budgets: {text_of(seen)}, seed {SEED}"
    assert not breaches, "\n".join([summary, *breaches])
    assert seen["pods bound"], summary
    record_property(SUMMARY, summary)


@pytest.mark.skipif(CASES < MANY, reason=f"a share of fewer than {MANY} cases says nothing")
def test_the_same_clusters_without_the_agent(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    seen: Counter[str] = Counter()
    breaches = play(cluster, UNPROTECTED, PreemptionScene.preempt_one_by_one, seen)
    summary = f"preemption without the agent budgets: {text_of(seen)}, seed {SEED}"
    assert breaches, f"{summary}: no case needs the agent, so that the cases show nothing"
    record_property(SUMMARY, summary)


@pytest.mark.skipif(CASES < MANY, reason=f"a share of fewer than {MANY} cases says nothing")
def test_pods_that_come_together(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    """A race remains: the scheduler may plan the second preemption before the controller has counted the victims of the first."""
    seen: Counter[str] = Counter()
    breaches = play(cluster, PROTECTED, PreemptionScene.preempt_together, seen)
    summary = f"preemption for pods that come together: {text_of(seen)}, seed {SEED}"
    unprotected: Counter[str] = Counter()
    play(cluster, UNPROTECTED, PreemptionScene.preempt_together, unprotected)
    assert seen["cases with a breach"] < max(1, unprotected["cases with a breach"]), "\n".join([summary, *breaches])
    record_property(SUMMARY, f"{summary}; without the agent: {text_of(unprotected)}")


def play(cluster: Cluster, scheduler_name: str, preempt: Preempt, seen: Counter[str]) -> list[str]:
    """Play all cases and count their results. Return the moments at which a budget had too few pods, with the settings that repeat them."""
    found = []
    with ThreadPoolExecutor(4) as pool:
        for seeds in batches(SEED, CASES):
            found += _play_batch(cluster, scheduler_name, preempt, seeds, pool, seen)
    return found


def text_of(seen: Counter[str]) -> str:
    """Return the counts as text."""
    return f"{CASES} cases, " + ", ".join(f"{seen[what]} {what}" for what in COUNTS)


def _play_batch(
    cluster: Cluster, scheduler_name: str, preempt: Preempt, seeds: range, pool: ThreadPoolExecutor, seen: Counter[str]
) -> list[str]:
    scenes = list(pool.map(lambda seed: PreemptionScene(cluster, random_cluster(seed), scheduler_name), seeds))
    try:
        set_up(cluster, scenes, pool)
        before = {scene.id: _uids(scene) for scene in scenes}
        history = BudgetHistory(cluster)
        list(pool.map(preempt, scenes))
        breaches = history.breaches(list(scenes))
        for scene in scenes:
            bound = scene.bound()
            victims = len(before[scene.id] - _uids(scene))
            pods = {"pods bound": bound, "pods waiting": len(scene.task.critical) - bound, "victims": victims}
            seen.update({**pods, "cases with victims": bool(victims), "cases with a breach": bool(breaches[scene.id])})
        return [f"PREEMPTION_CASES=1 PREEMPTION_SEED={scene.task.seed}: {text}" for scene in scenes for text in breaches[scene.id]]
    finally:
        list(pool.map(lambda scene: scene.close(), scenes))


def _uids(scene: PreemptionScene) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scene.pods()}
