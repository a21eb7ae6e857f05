# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states that the cluster may have after the actions that were begun on one snapshot.

Simulations of an action may end with other nodes. A later decision is made in each of these states. If it is not the same in all of them,
it depends on the results of earlier actions, and ``condition`` says on which.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from ...model.messages import listed
from ...scheduler.cluster_state import ClusterState
from .run_limits import RunLimits
from .targets import Target

Counts = dict[str, dict[str, int]]
"""Replicas by topology key and domain."""

MAX_ENDS = 3
"""The most results of an earlier action that a condition names. If it needs more, it names the others."""
MAX_LISTED = 6
"""The most domains or workloads in a text."""
ONLY_IF, UNLESS, OR = "only if ", "unless ", " or "
"""The words before and between the results in a condition."""


@dataclass(frozen=True, eq=False)
class PossibleState:
    """One of the states. ``limits`` counts its actions. ``ends``: the replicas of each moved workload after its action."""

    cluster_state: ClusterState
    limits: RunLimits
    ends: Mapping[Target, Counts] = field(default_factory=dict)


class StateAfter(t.NamedTuple):
    """A state after an action. ``identity`` is equal for equal ends of it."""

    identity: Hashable
    cluster_state: ClusterState
    limits: RunLimits
    end: Counts


class PossibleStates:
    """One state for each number of a draw. States that are equal are one object, and nothing is decided in it twice.

    ``draws``: the number of draws, and so the most states.
    """

    def __init__(self, cluster_state: ClusterState, limits: RunLimits, draws: int) -> None:
        self._states: Sequence[PossibleState] = [PossibleState(cluster_state, limits)] * draws
        self._moved: list[Target] = []

    @property
    def first(self) -> PossibleState:
        """The state of the first draw."""
        return self._states[0]

    @property
    def distinct(self) -> list[PossibleState]:
        """Each state once."""
        return list({id(state): state for state in self._states}.values())

    def assume(self, target: Target, acting: Sequence[PossibleState], act: Callable[[PossibleState, int], StateAfter]) -> Counts:
        """Assume an action for the target in the ``acting`` states. Return the replicas after it in the first of them.

        ``act`` returns the state after the action, by the draw with this number.
        """
        made: dict[Hashable, PossibleState] = {}
        states: list[PossibleState] = []
        for number, state in enumerate(self._states):
            if state not in acting:
                states.append(state)
                continue
            after = act(state, number)
            new = PossibleState(after.cluster_state, after.limits, {**state.ends, target: after.end})
            states.append(made.setdefault((id(state), after.identity), new))
        self._states = states
        self._moved = [*(one for one in self._moved if one != target), target]
        return next(iter(made.values())).ends[target]

    def condition(self, acting: Sequence[PossibleState]) -> str:
        """Return the results of earlier actions that a later action needs, such as "only if ..." or "unless ...".

        ``acting``: the states in which it is taken. If these are all, the condition is empty.
        """
        taken = [state for state in self._states if state in acting]
        others = [state for state in self._states if state not in acting]
        if not others:
            return ""
        for target in reversed(self._moved):
            good, bad = (dict.fromkeys(replicas_text(target, state.ends.get(target)) for state in some) for some in (taken, others))
            if not good.keys() & bad.keys():
                return ONLY_IF + OR.join(good) if len(good) <= MAX_ENDS else UNLESS + OR.join(bad)
        moved = listed(map(str, self._moved), MAX_LISTED)
        return f"in {len(taken)} of {len(self._states)} simulations of the earlier actions ({moved}): plan again after them"


def replicas_text(target: Target, end: t.Optional[Counts]) -> str:
    """Return the replicas with which the workload ends, as in a condition. None: it is not moved."""
    if end is None:
        return f"{target} is not moved"
    counts = ((f"{domain}={count}" for domain, count in sorted(domains.items()) if count) for domains in end.values())
    return f"{target} ends with {'; '.join(listed(texts, MAX_LISTED) for texts in counts)}"
