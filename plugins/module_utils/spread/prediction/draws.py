# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The draws: each simulation makes its own of the choices that are not known.

Source: kubernetes ``pkg/scheduler/schedule_one.go`` (prioritizeNodes, selectHost, findNodesThatPassFilters).
"""

from __future__ import annotations

import random
import typing as t
from itertools import cycle

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.reason import Reason
from ...model.scheduler_profile import DEFAULT_PROFILE
from ...model.snapshot import ClusterSnapshot
from ...scheduler.node_search import SearchOrder, SearchOrders, nodes_to_find
from ..rollout import rollout_bounds, update_strategy_type
from .old_pods import can_be_removed_in_other_orders, ends_at_removal
from .sampled_search import SampledSearch

BEFORE_NEXT_POD = "before_next_pod"
AT_NEXT_STEP = "at_next_step"
WHEN_NEEDED = "when_needed"
AT_RANDOM = "at_random"

ENDS = {
    BEFORE_NEXT_POD: "terminating pods have ended when the next new pod is placed",
    AT_NEXT_STEP: "terminating pods still use their nodes when the next new pod is placed, and have ended one step of the rollout later",
    WHEN_NEEDED: "terminating pods still use their nodes until the rollout has ended",
}
"""The possible times at which all terminating pods end if no controller waits for them, as the end of "it helps only if ...".

With AT_RANDOM, each of them ends at a time of its own. A pod that the rollout removes has mostly not ended when the next new pod is placed
(``old_pods.ends_at_removal``). With BEFORE_NEXT_POD it then ends one step later.
"""

ENDED_A_STEP_LATER = "terminating pods have ended one step of the rollout later at the latest"


class Choices(t.NamedTuple):
    """The assumptions of one simulation.

    ``keeps_order``: of nodes with equal scores the scheduler takes the one that is first in its order, for all pods. Otherwise each choice
    is random. kube-scheduler 1.36 keeps an order unless it has extenders. ``ends``: one of ENDS, or AT_RANDOM. ``accepts_unknown``: nodes
    with unknown filter results are feasible. ``reuses_scores``: the scheduler reuses the scores of the pod before
    (``scheduler/batching.py``). ``is_alone``: no other pods are placed in between, so each search for feasible nodes begins where the one
    before has ended. Otherwise all begin at the same node. ``ready_together``: the new pods of one step of a rollout become ready at the
    same time. If it is False, they become ready one after the other, and each of them is a step. If it is None, some of them become ready
    in a step. ``shuffles_old``: the old pods of one rank are removed in a random order. Otherwise the youngest is the first.
    ``removes_early``: old pods are removed when the first new pod of a step is placed. Otherwise they are removed when all are placed. The
    controller creates the pods of a ReplicaSet in batches of 1, 2, 4 (``slowStartBatch``), and removes those of the other one meanwhile.
    """

    keeps_order: bool
    ends: str
    accepts_unknown: bool
    reuses_scores: bool
    is_alone: bool
    ready_together: t.Optional[bool]
    shuffles_old: bool
    removes_early: bool


COMBINATIONS = (
    Choices(True, AT_NEXT_STEP, True, False, True, True, False, True),
    Choices(True, WHEN_NEEDED, False, True, False, True, True, False),
    Choices(True, BEFORE_NEXT_POD, False, False, False, False, False, False),
    Choices(True, AT_RANDOM, True, True, False, None, False, True),
    Choices(False, AT_NEXT_STEP, False, True, True, False, True, False),
    Choices(False, WHEN_NEEDED, True, True, True, False, False, False),
    Choices(False, BEFORE_NEXT_POD, True, False, False, True, True, True),
    Choices(False, AT_RANDOM, False, False, True, None, True, False),
)
"""The choices of each draw. Each pair of values of ``keeps_order`` and ``ends`` occurs. Without those AT_RANDOM, no choice has the same
values everywhere as another one, or the opposite ones, so that ``depends_on`` finds the one that decides.
"""

DRAWS = len(COMBINATIONS)
"""The number of simulations with different choices."""

MAX_DRAWS = 4 * DRAWS
"""The most simulations of a workload. A result with a chance of one in ten is seen in 57 % of 8 simulations, and in 97 % of 32."""

END_RATES = (0.1, 0.3, 0.6)
"""The probabilities that a removed pod ends in a step of a simulation with AT_RANDOM."""

PODS_OF_FURTHER_DRAWS = MAX_DRAWS * 4
"""Workloads with few replicas get more than DRAWS simulations, so many that all have about this number of pods together.

The fewer replicas, the more often all of them are in one domain, or are not, by chance: two replicas in three zones share a zone in a third
of the cases. The cost of a simulation is that of its pods.
"""


class Draw:
    """The choices of one simulation that are not known.

    ``order``: an order in which the scheduler may have the nodes. ``wanted``: the number of feasible nodes after which its search ends, or
    None if it scores all of them.
    """

    def __init__(self, seed: str, order: SearchOrder, wanted: t.Optional[int], choices: Choices) -> None:
        self._chance = random.Random(seed)
        self._positions = order.positions if choices.keeps_order else None
        self.search = SampledSearch(order, wanted, advances=choices.is_alone) if wanted is not None else None
        self._choices = choices
        self._end_rate = self._chance.choice(END_RATES)
        self.accepts_unknown = choices.accepts_unknown
        self.reuses_scores = choices.reuses_scores
        self.removes_early = choices.removes_early
        self.had_choice = False

    @property
    def kind(self) -> t.Hashable:
        """The choices that decide the result if ``is_certain`` is True."""
        return self._choices.ends, self._choices.ready_together, self._choices.shuffles_old, self._choices.removes_early

    @property
    def is_certain(self) -> bool:
        """True if all simulations of the same ``kind`` have this result: nothing was left to chance."""
        return not self.had_choice and self.search is None

    def removal_order(self) -> t.Optional[random.Random]:
        """Return the generator for the order in which old pods of one rank are removed. None means by their age."""
        if not self._choices.shuffles_old:
            return None
        self.had_choice = True
        return self._chance

    def has_ended_at_removal(self, pod: Pod, removed: int = 1) -> bool:
        """Return whether the pod has ended when the pods that replace the ``removed`` pods of one step are placed."""
        known = ends_at_removal(pod, removed)
        return self.has_ended(immediately=True) if known is None else known

    def has_ended(self, *, immediately: bool) -> bool:
        """Return whether a terminating pod has ended: immediately, or else one step of the rollout later."""
        if self._choices.ends == AT_RANDOM:
            self.had_choice = True
            return self._chance.random() < self._end_rate
        return self._choices.ends == BEFORE_NEXT_POD or (self._choices.ends == AT_NEXT_STEP and not immediately)

    def end_next(self, terminating: t.Sequence[Pod]) -> t.Sequence[Pod]:
        """Return those of the terminating pods that end when a new pod finds no node."""
        if self._choices.ends != AT_RANDOM or len(terminating) == 1:
            return terminating
        self.had_choice = True
        return [self._chance.choice(terminating)]

    def ready(self, before: int, placed: int) -> int:
        """Return how many of the ``placed`` new pods are ready in the next step, if ``before`` were ready in the step before."""
        together, least = self._choices.ready_together, min(before + 1, placed)
        if together is not None or least == placed:
            return placed if together else least
        self.had_choice = True
        return self._chance.randint(least, placed)

    def choose(self, names: t.Sequence[str]) -> str:
        """Return one of these nodes, which have equal scores. The order of the names must not depend on chance."""
        if len(names) == 1:
            return names[0]
        self.had_choice = True
        return self._chance.choice(names) if self._positions is None else min(names, key=self._positions.__getitem__)


class Draws:
    """The draws for simulations on one snapshot. The same snapshot always gets the same ones."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._orders = SearchOrders(snapshot.nodes)

    def of(self, workload: Workload, number: int) -> Draw:
        """Return the draw of the workload with this number. The choices repeat after DRAWS numbers, with another order of the nodes."""
        return Draw(f"{workload.metadata.uid}/{number}", self._orders.of(number), self._wanted(workload), COMBINATIONS[number % DRAWS])

    def suffice(self, results: t.Sequence[bool], pods: int) -> bool:
        """Return whether no further simulation is needed after those with these results. ``pods``: the new pods of one simulation."""
        if len(results) < DRAWS:
            return False
        return len(set(results)) > 1 or len(results) >= min(PODS_OF_FURTHER_DRAWS // max(pods, 1), MAX_DRAWS)

    def uncertain(self, workload: Workload, results: t.Sequence[bool], what: str) -> Reason:
        """Return the reason why only some simulations of the workload are successful.

        ``results``: the result of each draw. ``what``: the success, as in "4 of 8 simulated restarts ...".
        """
        share = f"{sum(results)} of {len(results)} {what}"
        has_times = not waits_for_end(workload)
        certain = _condition(results) if has_times else None
        if certain is not None:
            return certain
        if self._wanted(workload) is not None:
            return Reason("depends_on_sampling", f"{share}: in a cluster of this size the scheduler scores only a part of the nodes")
        if has_times and _differs_only_if(lambda choices: choices.ends == AT_RANDOM, results):
            return Reason(
                "depends_on_termination", f"{share}: it is not known when each terminating pod ends, and when each new pod becomes ready"
            )
        if has_times and rollout_bounds(workload).max_surge > 1 and depends_on("removes_early", results):
            early = "it is not known whether old pods are removed before or after all new pods of a step are placed"
            return Reason("depends_on_removal_order", f"{share}: {early}")
        has_orders = has_times and can_be_removed_in_other_orders(self._snapshot.owned_pods(workload))
        if has_orders and _differs_only_if(lambda choices: choices.shuffles_old, results):
            return Reason("depends_on_removal_order", f"{share}: it is not known in which order the old pods are removed")
        if depends_on("reuses_scores", results):
            return Reason("depends_on_ties", f"{share}: it is not known whether the scheduler uses the scores of one pod for the next one")
        return Reason("depends_on_ties", f"{share}: it is not known which of the nodes with equal scores the scheduler chooses")

    def _wanted(self, workload: Workload) -> t.Optional[int]:
        profile = self._snapshot.profiles.get(workload.spec.template.spec.scheduler_name, DEFAULT_PROFILE)
        nodes = len(self._snapshot.nodes)
        wanted = nodes_to_find(profile.percentage_of_nodes, nodes)
        return wanted if wanted < nodes else None


def depends_on(choice: str, results: t.Sequence[bool]) -> bool:
    """Return whether this choice alone, a field of ``Choices``, decides the results of the draws, apart from those AT_RANDOM."""
    by_value: dict[object, set[bool]] = {}
    for choices, success in zip(cycle(COMBINATIONS), results):
        if choices.ends != AT_RANDOM:
            by_value.setdefault(getattr(choices, choice), set()).add(success)
    return all(len(found) == 1 for found in by_value.values()) and len(set().union(*by_value.values())) > 1


def _condition(results: t.Sequence[bool]) -> t.Optional[Reason]:
    """Return the reason if the end of old pods, or the readiness of new ones, decides the results. It says when a restart helps."""
    successful = [choices for choices, success in zip(cycle(COMBINATIONS), results) if success and choices.ends != AT_RANDOM]
    if depends_on("ends", results):
        ends = dict.fromkeys(choices.ends for choices in successful)
        texts = [ENDED_A_STEP_LATER] if {BEFORE_NEXT_POD, AT_NEXT_STEP} == ends.keys() else [ENDS[one] for one in ends]
        return Reason("depends_on_termination", f"it helps only if {', or '.join(texts)}")
    if depends_on("ready_together", results):
        when = "at the same time" if successful[0].ready_together else "one after the other"
        return Reason("depends_on_readiness", f"it helps only if the new pods of a step become ready {when}")
    return None


def _differs_only_if(applies: t.Callable[[Choices], bool], results: t.Sequence[bool]) -> bool:
    """Return whether all draws to which this does not apply have the same result. Not all results are equal."""
    return len({success for choices, success in zip(cycle(COMBINATIONS), results) if not applies(choices)}) == 1


def waits_for_end(workload: Workload) -> bool:
    """Return whether the controller creates the next pod only after the one before has ended."""
    return workload.kind == "StatefulSet" or update_strategy_type(workload) == "Recreate"


def terminating_copy(pod: Pod) -> Pod:
    """Return the pod as it is after its deletion has begun, with a uid of its own. It uses its node, and no spread constraint counts it.

    Source: kubernetes ``plugins/podtopologyspread/common.go`` (countPodsMatchSelector).
    """
    metadata = replace(pod.metadata, uid=f"terminating-{pod.metadata.uid}", deletion_timestamp="1970-01-01T00:00:00Z")
    return replace(pod, metadata=metadata)
