# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores against those of the real kube-scheduler, by plugin and in total, for each feasible node, over random clusters.

The scheduler places the pods one after the other. After each of them, the placed pod is added to the cluster state, as the scheduler does.
ORACLE_SCORED_PODS and ORACLE_SCORES set how many pods and how many scores of a pod on a node are compared at least (700 pods; 100,000
scores under SOAK=1), ORACLE_SEED which clusters: the same seed gives the same clusters.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.scores.scorer import NodeScores, Scorer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of

from tests.integration.conftest import SUMMARY
from tests.integration.oracle.scores.cases import score_case
from tests.integration.oracle.scores.profiles import configuration
from tests.integration.oracle.scores.world import Attempt, Played, ScoreWorld

SOAK = os.environ.get("SOAK") == "1"
WANTED_PODS = int(os.environ.get("ORACLE_SCORED_PODS", "0" if SOAK else "700"))
WANTED_SCORES = int(os.environ.get("ORACLE_SCORES", "100000" if SOAK else "0"))
SEED = int(os.environ.get("ORACLE_SEED", str(time.time_ns() % 10**9) if SOAK else "1"))
SHOWN = 5
MAX_UNKNOWN = 0.08
"""The share of pods whose total scores may be unknown: a controller does not exist, or nodes report different sizes of an image."""
PROFILES = profiles_of({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", **configuration()}, "oracle")


def test_scores_agree_with_the_scheduler(score_world: ScoreWorld, record_property: Callable[[str, object], None]) -> None:
    started = time.monotonic()
    comparison = Comparison()
    number = SEED
    while comparison.pods < WANTED_PODS or comparison.scores < WANTED_SCORES:
        comparison.compare(score_world.play(score_case(number)))
        assert not comparison.differing, comparison.failure(number)
        number += 1
    assert comparison.unknown < MAX_UNKNOWN * comparison.pods, f"the totals of {comparison.unknown} of {comparison.pods} pods are unknown"
    seconds = time.monotonic() - started
    record_property(SUMMARY, f"scores: {comparison.summary} agree in {seconds:.1f} s, seed {SEED}")


@dataclass(frozen=True)
class Disagreement:
    """One pod, a plugin or the total, and both results by node."""

    pod: Pod
    plugin: str
    ours: dict[str, int]
    scheduler: dict[str, int]

    def __str__(self) -> str:
        nodes = [name for name, score in self.scheduler.items() if self.ours.get(name) != score]
        lines = [f"{name}: ours {self.ours.get(name)}, scheduler {self.scheduler[name]}" for name in nodes]
        return "\n".join([f"{self.plugin}, {len(nodes)} of {len(self.scheduler)} nodes", *lines[:SHOWN], encode_json(self.pod).decode()])


class Comparison:
    """Counts what was compared."""

    def __init__(self) -> None:
        self.pods = self.scores = self.unknown = 0
        self.differing: list[Disagreement] = []
        self._plugins: Counter[str] = Counter()

    @property
    def summary(self) -> str:
        """Return the counts. A score of a plugin counts here if it differs between two feasible nodes."""
        plugins = ", ".join(f"{name} {count}" for name, count in sorted(self._plugins.items()))
        return f"{self.scores} scores of {self.pods} pods ({self.unknown} pods unknown; different scores on nodes: {plugins})"

    def compare(self, played: Played) -> None:
        """Compare each attempt of a case, and add each placed pod to the cluster state."""
        cluster_state = ClusterState.of(played.snapshot)
        # These scorers follow the changes of the whole case.
        early = {key: Scorer(pod, cluster_state, PROFILES) for key, pod in list(played.pending.items())[::2]}
        last = {attempt.pod: number for number, attempt in enumerate(played.attempts)}
        for number, attempt in enumerate(played.attempts):
            pod, placed = played.pending[attempt.pod], played.placed[attempt.pod]
            if attempt.totals:
                scorer = early.get(attempt.pod) or Scorer(pod, cluster_state, PROFILES)
                self._compare(pod, attempt, scorer.scores(attempt.totals))
                self._check_best(scorer, attempt)
            # An attempt before the last one has failed.
            if placed.spec.node_name and last[attempt.pod] == number:
                cluster_state.assign(placed, placed.spec.node_name)

    def failure(self, number: int) -> str:
        """Return the first disagreements of the case with this seed."""
        shown = "\n\n".join(map(str, self.differing[:SHOWN]))
        return f"{len(self.differing)} disagreements in one case, replay with ORACLE_SEED={number}\n\n{shown}"

    def _compare(self, pod: Pod, attempt: Attempt, found: NodeScores) -> None:
        self.pods += 1
        self.scores += len(attempt.totals)
        self.unknown += bool(found.unknown)
        for plugin, scores in attempt.by_plugin.items():
            self._plugins[plugin] += len(set(scores.values())) > 1
        certain = found.by_plugin if found.unknown else {**{name: {} for name in attempt.by_plugin}, **found.by_plugin}
        for plugin, ours in certain.items():
            # The scheduler does not mention a plugin that it skips, and each of them would score 0.
            theirs = attempt.by_plugin.get(plugin, dict.fromkeys(attempt.totals, 0))
            self._note(pod, plugin, ours or dict.fromkeys(attempt.totals, 0), theirs)
        if not found.unknown:
            self._note(pod, "total", dict(found.totals), attempt.totals)

    def _note(self, pod: Pod, plugin: str, ours: dict[str, int], theirs: dict[str, int]) -> None:
        if ours != theirs:
            self.differing.append(Disagreement(pod, plugin, ours, theirs))

    def _check_best(self, scorer: Scorer, attempt: Attempt) -> None:
        if not scorer.unknown(attempt.totals):
            highest = max(attempt.totals.values())
            assert set(scorer.best(attempt.totals)) == {name for name, total in attempt.totals.items() if total == highest}
