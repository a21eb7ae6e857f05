# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What keeps nodes closed to a pod even after evictions, counted over the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..model.reason import Reason, Reasons
from ..scheduler.cluster_state import ClusterState
from .budgets import BUDGET, SEVERAL_BUDGETS
from .occupants import Occupants
from .plan import Blocker
from .prospect import Means, Prospect
from .residents import Resident, residents_of
from .victims import EvictionRules

MAX_VICTIMS = "max_victims"
MOST_TEXTS = 2
"""Texts that are shown of one code where they differ."""
_TOGETHER = Reason(BUDGET, "PodDisruptionBudgets do not let as many pods go together as would have to")
_OF_SEVERAL = {
    BUDGET: "PodDisruptionBudgets allow no disruption now",
    SEVERAL_BUDGETS: "more than one PodDisruptionBudget selects them, and the API server evicts no such pod",
}


class Blockade:
    """Collects what closes nodes to one pod."""

    def __init__(self, placement: ClusterState, rules: EvictionRules, means: Means) -> None:
        self._placement = placement
        self._rules = rules
        self._means = means
        self._nodes: Counter[Reason] = Counter()
        # How many nodes are closed by the same reasons whatever runs there, and how many even without their pods.
        self._closed: Counter[Reasons] = Counter()
        self._closed_empty: Counter[Reasons] = Counter()
        # By the code of what keeps pods where they are: on how many nodes, how many pods, and in which words.
        self._staying_nodes: Counter[str] = Counter()
        self._staying_pods: Counter[str] = Counter()
        self._words: dict[str, set[str]] = {}

    def blockers(self) -> tuple[Blocker, ...]:
        """What closes most nodes comes first."""
        counted = Counter(self._nodes)
        for reasons, nodes in self._closed.items():
            counted.update(dict.fromkeys(reasons, nodes))
        for reasons, nodes in self._closed_empty.items():
            counted.update(dict.fromkeys((Reason(one.code, f"{one.text}, even without its other pods") for one in reasons), nodes))
        found = [Blocker(reason, nodes) for reason, nodes in counted.items()]
        found += [Blocker(Reason(code, self._staying(code)), nodes) for code, nodes in self._staying_nodes.items()]
        return tuple(sorted(found, key=lambda blocker: (-blocker.nodes, blocker.reason.code, blocker.reason.text)))

    def add_closed(self, reasons: Reasons) -> None:
        """A node that is closed whatever runs on it."""
        self._closed[reasons] += 1

    def add(self, name: str, occupants_of: Callable[[str], Occupants]) -> None:
        """A node that is closed by what runs on it, or by a rule that depends on it."""
        trial = self._means.trial
        info = self._placement.info(name)
        residents = residents_of(info, self._means.options).everybody
        empty = trial.verdict_on_empty(name) if len(residents) == len(info.pods) else None
        rejected, doubts = empty or trial.verdict(name, [resident.pod for resident in residents])
        if rejected or doubts:
            self._closed_empty[rejected] += 1
            self._closed[doubts] += 1
            return
        occupants = occupants_of(name)
        rejected, doubts = trial.verdict(name, [pod.pod for pod in occupants.evictable])
        if not rejected and not doubts:
            self._add_joint(name, occupants)
            return
        self._nodes.update(Reason(reason.code, f"{reason.text}, even after evicting all that may go") for reason in set(rejected))
        self._nodes.update(set(doubts))
        self._count_staying(residents)

    def _count_staying(self, residents: Iterable[Resident]) -> None:
        staying = [reason for reason in map(self._rules.immunity_of, residents) if reason is not None]
        self._staying_pods.update(reason.code for reason in staying)
        self._staying_nodes.update({reason.code for reason in staying})
        for reason in staying:
            self._words.setdefault(reason.code, set()).add(reason.text)

    def _add_joint(self, name: str, occupants: Occupants) -> None:
        """Each of the pods may go, and yet not enough of them together."""
        most = self._means.options.max_victims
        unbounded = replace(self._means, options=replace(self._means.options, max_victims=None), shapes={})
        attempt = Prospect(name, occupants, unbounded)
        while not attempt.proved:
            if not attempt.refine():
                self._nodes[_TOGETHER] += 1
                return
        if most is not None and len(attempt.victims) > most:
            self._nodes[Reason(MAX_VICTIMS, f"more than {most} pods would have to go")] += 1

    def _staying(self, code: str) -> str:
        number, words = self._staying_pods[code], self._words[code]
        text = next(iter(words)) if len(words) == 1 else _OF_SEVERAL.get(code) or _first_of(words)
        return f"{number} pod{'' if number == 1 else 's'} there: {text}"


def _first_of(words: set[str]) -> str:
    """The first texts in their order, so that equal clusters give equal answers."""
    ordered = sorted(words)
    more = f"; and {len(ordered) - MOST_TEXTS} more reasons of this kind" if len(ordered) > MOST_TEXTS else ""
    return "; ".join(ordered[:MOST_TEXTS]) + more
