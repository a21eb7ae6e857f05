# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Plans a pass on a random cluster, makes it, and compares the actions, their order, their conditions and their messages."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Struct, field
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rebalance.options import PassOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rebalance.run import run_pass
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
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.possible_states import (
    ONLY_IF,
    OR,
    UNLESS,
    replicas_text,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

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
Entries = Mapping[Target, Mapping[str, Any]]
"""The entries of a result by workload."""


class ComparedAction(Struct, frozen=True):
    """The action for one workload in the plan and in the run, each with the code and the text of its reason.

    ``holds``: whether the condition is true after the run. None if there is none, or if the replicas do not show it. ``in_order``: as many
    workloads are moved before it in the run as in the plan, of those that both move.
    """

    workload: str
    planned: str
    planned_reason: str
    planned_message: str
    action: str
    reason: str
    message: str
    condition: str
    holds: bool | None
    in_order: bool

    @property
    def is_conditional(self) -> bool:
        """True if the plan depends on earlier actions."""
        return self.planned in CONDITIONAL

    @property
    def is_made(self) -> bool:
        """True if the run has the action of the plan."""
        return self.action == MADE.get(self.planned, self.planned)

    @property
    def agrees(self) -> bool:
        """True if the run does what the plan says. If the condition is not true, ``auto`` may evict single pods."""
        if self.is_made or not self.is_conditional:
            return self.is_made and self.in_order and self.holds is not False
        return self.holds is not True and self.action in (SKIPPED, EVICTED)

    @property
    def has_equal_text(self) -> bool:
        """True if the reason is the same in both. The text of a conditional action also has the condition."""
        planned = self.planned_message.replace(f"; {self.condition}", "") if self.condition else self.planned_message
        return (self.planned_reason, planned) == (self.reason, self.message)


class PlanResult(Struct, frozen=True):
    """The actions of a random cluster."""

    seed: int
    nodes: int
    options: str
    seconds: float
    actions: list[ComparedAction] = field(default_factory=list)


class RecordingApi(KubeApi):
    """Records the names of the objects that are patched and of the pods that are evicted, also in a dry run."""

    written: list[str]

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: dict[str, Any], *, dry_run: bool = False) -> Any:
        """Record the object and patch it."""
        self.written.append(name)
        return super().merge_patch(resource, namespace, name, patch, dry_run=dry_run)

    def evict(self, namespace: str, name: str, *, uid: str, grace_period_s: int | None = None, dry_run: bool = False) -> None:
        """Record the pod and evict it."""
        self.written.append(name)
        super().evict(namespace, name, uid=uid, grace_period_s=grace_period_s, dry_run=dry_run)


def plan_cases() -> Iterator[RandomCase]:
    """Yield the clusters with enough uneven workloads. Their seeds increase."""
    seed = 0
    while True:
        seed += 1
        case = random_cluster(seed, workloads=WORKLOADS)
        if len(case.workloads) >= WORKLOADS[0]:
            yield case


def compare_plan(case: RandomCase, world: CaseWorld, api: RecordingApi) -> PlanResult:
    """Create the cluster, plan a pass on it, and make the pass."""
    choices = Choices(f"plan {case.seed}")
    strategy, max_workloads = choices.choice(STRATEGIES), choices.choice(MAX_WORKLOADS)
    began = time.monotonic()
    with world.created(case) as scheduler_config:
        check = CheckOptions(
            namespaces=(NAMESPACE,),
            namespace_annotations=(),
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
        planned, planned_order = _actions(api, PassOptions(check, replace(restart, dry_run=True)))
        made, order = _actions(api, PassOptions(check, restart))
    return PlanResult(
        case.seed,
        len(case.nodes),
        f"strategy {strategy}, max_workloads {max_workloads}, keys {', '.join(case.topology_keys)}, max_skew {case.max_skew}",
        round(time.monotonic() - began, 1),
        compare_actions(planned, made, planned_order, order),
    )


def _actions(api: RecordingApi, options: PassOptions) -> tuple[Entries, list[Target]]:
    """Return the entries of the result, and the moved workloads in the order of their first requests."""
    api.written = []
    result = run_pass(api, options)
    assert result.error is None and result.stopped is None, result
    entries = {Target(one["kind"], one["namespace"], one["name"]): one for one in (result.restart or {}).get("workloads", ())}
    target_of = {pod["pod"]: target for target, entry in entries.items() for pod in entry["evicted"]}
    target_of |= {target.name: target for target in entries}
    moved = (*MADE.keys(), *MADE.values())
    written = dict.fromkeys(target_of[name] for name in api.written if name in target_of)
    return entries, [target for target in written if entries[target]["action"] in moved]


def compare_actions(planned: Entries, made: Entries, planned_order: Sequence[Target], order: Sequence[Target]) -> list[ComparedAction]:
    """Compare the entries of a plan with those of its run. The orders have the workloads that are moved."""
    assert planned.keys() == made.keys(), f"the plan has {sorted(planned)}, the run {sorted(made)}"
    places, planned_places = (
        {target: place for place, target in enumerate(target for target in some if target in others)}
        for some, others in ((order, planned_order), (planned_order, order))
    )
    ends = {replicas_text(target, entry["after"] or None) for target, entry in made.items()}
    compared = []
    for target, entry in made.items():
        reasons = (one[key] for one in (planned[target], entry) for key in ("action", "reason", "message"))
        condition = planned[target]["condition"]
        in_order = places.get(target) == planned_places.get(target)
        compared.append(ComparedAction(str(target), *reasons, condition, _holds(condition, ends), in_order))
    return compared


def _holds(condition: str, ends: set[str]) -> bool | None:
    """Return whether the condition is true if the workloads end so. None if it is not about their replicas."""
    texts = set(condition.removeprefix(ONLY_IF).removeprefix(UNLESS).split(OR))
    if not all(text.startswith(("Deployment ", "StatefulSet ")) for text in texts):
        return None
    return texts.isdisjoint(ends) is condition.startswith(UNLESS)


class PlanTally:
    """The counts of all compared actions."""

    def __init__(self, results: Iterable[PlanResult]) -> None:
        results = list(results)
        self.cases = len(results)
        self.compared = [one for result in results for one in result.actions]
        self.agreeing = sum(one.agrees for one in self.compared)
        self.conditional = sum(one.is_conditional for one in self.compared)
        self.unknown_conditions = sum(one.is_conditional and one.holds is None for one in self.compared)
        self.made = sum(one.is_made for one in self.compared)
        self.equal_texts = sum(one.is_made and one.has_equal_text for one in self.compared)
        self.seconds = sum(result.seconds for result in results)

    @property
    def agreement(self) -> float:
        """The share of actions on which plan and run agree."""
        return self.agreeing / max(1, len(self.compared))

    @property
    def conditional_share(self) -> float:
        """The share of conditional actions in the plans."""
        return self.conditional / max(1, len(self.compared))

    @property
    def equal_text_share(self) -> float:
        """The share of actions with the same message, of those that are made as planned."""
        return self.equal_texts / max(1, self.made)

    def __str__(self) -> str:
        return (
            f"plans: {self.cases} clusters, {len(self.compared)} actions: {self.agreeing} agree ({self.agreement:.1%}), {self.conditional} "
            f"are conditional ({self.conditional_share:.1%}), {self.unknown_conditions} of them on what replicas do not show, "
            f"{self.equal_texts} of {self.made} made as planned have the same message ({self.equal_text_share:.1%}); "
            f"{self.seconds / max(1, self.cases):.0f} s for each cluster"
        )


def disagreements(results: Iterable[PlanResult], *, messages: bool = True) -> Iterator[str]:
    """Describe each action on which plan and run do not agree, with the setting that repeats it. ``messages``: and each message."""
    for result in results:
        for one in result.actions:
            if not one.agrees or (messages and one.is_made and not one.has_equal_text):
                yield (
                    f"PLAN_SEEDS={result.seed}: {one.workload}, {result.nodes} nodes, {result.options}: the plan has {one.planned} "
                    f"({one.planned_reason}: {one.planned_message}), the run {one.action} ({one.reason}: {one.message}), in the "
                    f"{'same' if one.in_order else 'wrong'} order; the condition is {one.holds}"
                )
