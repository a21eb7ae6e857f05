# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Plans a pass on a random cluster, makes it, and compares the actions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Struct, field
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rebalance.run import PassOptions, run_pass
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.actions import (
    EVICTED,
    RESTARTED,
    SKIPPED,
    WOULD_EVICT,
    WOULD_EVICT_IF,
    WOULD_RESTART,
    WOULD_RESTART_IF,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import STRATEGIES, RestartOptions

from tests.integration.prediction.case_world import CaseWorld
from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import NAMESPACE, RandomCase
from tests.integration.prediction.random_clusters import random_cluster

WORKLOADS = (5, 10)
"""The fewest and the most uneven workloads of a cluster."""
MAX_WORKLOADS = (None, None, 1, 2, 4)
WAIT_TIMEOUT_S = 60
MADE = {WOULD_RESTART: RESTARTED, WOULD_RESTART_IF: RESTARTED, WOULD_EVICT: EVICTED, WOULD_EVICT_IF: EVICTED}
"""The action of a run by that of its plan. Other actions are equal."""
CONDITIONAL = (WOULD_RESTART_IF, WOULD_EVICT_IF)


class ComparedAction(Struct, frozen=True):
    """The action for one workload in the plan and in the run, each with the code and the text of its reason."""

    workload: str
    planned: str
    planned_reason: str
    planned_message: str
    action: str
    reason: str
    message: str

    @property
    def is_conditional(self) -> bool:
        """True if the plan depends on earlier actions."""
        return self.planned in CONDITIONAL

    @property
    def agrees(self) -> bool:
        """True if the run does what the plan says. A conditional action is made or not, and ``auto`` may then evict single pods."""
        return self.action == MADE.get(self.planned, self.planned) or (self.is_conditional and self.action in (SKIPPED, EVICTED))

    @property
    def has_equal_text(self) -> bool:
        """True if the reason is the same in both. The text of a conditional action has the condition."""
        return (self.planned_reason, self.planned_message) == (self.reason, self.message)


class PlanResult(Struct, frozen=True):
    """The actions of a random cluster."""

    seed: int
    nodes: int
    options: str
    seconds: float
    actions: list[ComparedAction] = field(default_factory=list)


def plan_cases() -> Iterator[RandomCase]:
    """Yield the clusters with enough uneven workloads. Their seeds increase."""
    seed = 0
    while True:
        seed += 1
        case = random_cluster(seed, workloads=WORKLOADS)
        if len(case.workloads) >= WORKLOADS[0]:
            yield case


def compare_plan(case: RandomCase, world: CaseWorld, api: KubeApi) -> PlanResult:
    """Create the cluster, plan a pass on it, and make the pass."""
    choices = Choices(f"plan {case.seed}")
    strategy, max_workloads = choices.choice(STRATEGIES), choices.choice(MAX_WORKLOADS)
    began = time.monotonic()
    with world.created(case) as scheduler_config:
        check = CheckOptions(
            namespaces=(NAMESPACE,),
            namespace_annotation=None,
            topology_keys=case.topology_keys,
            max_skew=case.max_skew,
            min_ready_nodes=1,
            scheduler_config=scheduler_config,
        )
        restart = RestartOptions(
            strategy=strategy,
            max_workloads=max_workloads,
            wait_timeout_s=WAIT_TIMEOUT_S,
            topology_keys=case.topology_keys,
            max_skew=case.max_skew,
            scheduler_config=scheduler_config,
        )
        planned = _actions(api, PassOptions(check, replace(restart, dry_run=True)))
        made = _actions(api, PassOptions(check, restart))
    assert planned.keys() == made.keys(), f"the plan has {sorted(planned)}, the run {sorted(made)}"
    return PlanResult(
        case.seed,
        len(case.nodes),
        f"strategy {strategy}, max_workloads {max_workloads}, keys {', '.join(case.topology_keys)}, max_skew {case.max_skew}",
        round(time.monotonic() - began, 1),
        [_compared(name, planned[name], entry) for name, entry in made.items()],
    )


def _actions(api: KubeApi, options: PassOptions) -> dict[str, dict[str, Any]]:
    result = run_pass(api, options)
    assert result.error is None and result.stopped is None, result
    return {f"{entry['kind']} {entry['name']}": entry for entry in (result.restart or {}).get("workloads", ())}


def _compared(name: str, planned: dict[str, Any], made: dict[str, Any]) -> ComparedAction:
    found = (entry[key] for entry in (planned, made) for key in ("action", "reason", "message"))
    return ComparedAction(name, *found)


class PlanTally:
    """The counts of all compared actions."""

    def __init__(self, results: Iterable[PlanResult]) -> None:
        results = list(results)
        self.cases = len(results)
        self.compared = [one for result in results for one in result.actions]
        self.agreeing = sum(one.agrees for one in self.compared)
        self.conditional = sum(one.is_conditional for one in self.compared)
        self.equal_texts = sum(one.has_equal_text for one in self.compared if not one.is_conditional)
        self.seconds = sum(result.seconds for result in results)

    @property
    def agreement(self) -> float:
        """The share of actions on which plan and run agree."""
        return self.agreeing / max(1, len(self.compared))

    @property
    def conditional_share(self) -> float:
        """The share of conditional actions in the plans."""
        return self.conditional / max(1, len(self.compared))

    def __str__(self) -> str:
        total = len(self.compared)
        return (
            f"plans: {self.cases} clusters, {total} actions: {self.agreeing} agree ({self.agreement:.1%}), {self.conditional} are "
            f"conditional ({self.conditional_share:.1%}), {self.equal_texts} of {total - self.conditional} others have the same text; "
            f"{self.seconds / max(1, self.cases):.0f} s for each cluster"
        )


def disagreements(results: Iterable[PlanResult]) -> Iterator[str]:
    """Describe each action on which plan and run do not agree, with the setting that repeats it."""
    for result in results:
        for one in result.actions:
            if not one.agrees:
                yield (
                    f"PLAN_SEEDS={result.seed}: {one.workload}, {result.nodes} nodes, {result.options}: the plan has {one.planned} "
                    f"({one.planned_reason}: {one.planned_message}), the run {one.action} ({one.reason}: {one.message})"
                )
