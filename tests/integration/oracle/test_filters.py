# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The predicates against the real kube-scheduler, node by node, over random clusters.

ORACLE_DECISIONS sets how many pod-and-node decisions are compared at least (2,500; 200,000 under SOAK=1), ORACLE_SEED which
clusters: the same seed gives the same clusters.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.integration.conftest import SUMMARY
from tests.integration.oracle.cases import Case, cases
from tests.integration.oracle.comparison import Disagreement, disagreements, run_filters, sure_of
from tests.integration.oracle.world import Answer, World

SOAK = os.environ.get("SOAK") == "1"
WANTED = int(os.environ.get("ORACLE_DECISIONS", "200000" if SOAK else "2500"))
SEED = int(os.environ.get("ORACLE_SEED", str(time.time_ns() % 10**9) if SOAK else "1"))
# Fixed, because hypothesis draws other cases when it is asked for another number; from ten on, it begins with simple ones.
CASES_PER_SEED = 7
SHOWN = 5
MAX_UNSURE = 0.05
"""The share of nodes whose result may be unknown. Unknown results are not counted as decisions."""


def test_predicates_agree_with_the_scheduler(world: World, record_property: Callable[[str, object], None]) -> None:
    started = time.monotonic()
    comparison = Comparison(world)
    number = SEED
    while comparison.decisions < WANTED:
        comparison.compare(number)
        number += 1
    assert comparison.unsure < MAX_UNSURE, f"nothing was said of {comparison.unsure:.0%} of the nodes"
    seconds = time.monotonic() - started
    record_property(SUMMARY, f"oracle: {comparison.decisions} decisions agree in {seconds:.1f} s, seed {SEED}: {comparison.summary}")


class Comparison:
    """Plays cases and counts what was compared."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.decisions = 0
        self._pods = self._feasible = self._doubtful = self._unsure = 0
        self._rejected: Counter[str] = Counter()
        self._differing: list[Disagreement] = []

    @property
    def summary(self) -> str:
        """Return the counts of the decisions by result."""
        rejections = ", ".join(f"{code} {count}" for code, count in self._rejected.most_common())
        doubts = f"{self.unsure:.1%} of the nodes unsure, {self._doubtful} pods with something unknown"
        return f"{self._pods} pods, {doubts}; feasible {self._feasible}, {rejections}"

    @property
    def unsure(self) -> float:
        """Share of the nodes that were asked about and are not counted as decisions."""
        return self._unsure / (self.decisions + self._unsure)

    def compare(self, number: int) -> None:
        """Compare the cases of the seed until there are enough decisions. A difference fails with the pod, the node and both results."""
        drawn = 0

        @seed(number)
        # Shrinking would rebuild the cluster hundreds of times: the message already is about one pod and one node.
        @settings(
            max_examples=CASES_PER_SEED,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases())
        def play(case: Case) -> None:
            nonlocal drawn
            drawn += 1
            # The first case of hypothesis is the simplest one: nodes and pods that are all equal.
            if drawn > 1 and self.decisions < WANTED and not self._differing:
                self._play(case)

        play()
        assert not self._differing, self._failure(number)

    def _play(self, case: Case) -> None:
        snapshot, answers = self._world.play(case)
        cluster_state = ClusterState.of(snapshot)
        pods = {pod.metadata.uid: pod for pod in snapshot.pods}
        for answer in answers:
            pod = pods[answer.uid]
            feasibility = run_filters(pod, cluster_state)
            self._differing += disagreements(pod, cluster_state, feasibility, answer)
            self._count(feasibility, answer, len(snapshot.nodes))

    def _count(self, feasibility: Feasibility, answer: Answer, node_count: int) -> None:
        sure = sure_of(feasibility)
        self.decisions += sure
        self._unsure += node_count - sure
        self._pods += 1
        self._feasible += len(answer.passed)
        self._doubtful += bool(feasibility.unknown or feasibility.unknown_nodes)
        self._rejected.update({reason.code: count for reason, count in feasibility.counts()})

    def _failure(self, number: int) -> str:
        shown = "\n\n".join(map(str, self._differing[:SHOWN]))
        return f"{len(self._differing)} disagreements in one case, replay with ORACLE_SEED={number}\n\n{shown}"
