# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One decision for all states that the cluster may have."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .possible_states import PossibleState, PossibleStates

D = t.TypeVar("D")


@dataclass(frozen=True)
class Decided(t.Generic[D]):
    """The decision, and those of the states in which its action is taken. They are empty if nothing is done."""

    decision: D
    acting: t.Mapping[PossibleState, D]


def decide_in_each(
    states: PossibleStates, decide: t.Callable[[PossibleState], D], acts: t.Callable[[D], bool], *, is_plan: bool
) -> Decided[D]:
    """Decide in each of the states.

    If an action is decided in some of the states only, a plan has it, for these states. A run does not act before it knows more, so it
    decides in no other state after one in which nothing is done.
    """
    decisions: dict[PossibleState, D] = {}
    for state in states.distinct:
        decisions[state] = decide(state)
        if not is_plan and not acts(decisions[state]):
            return Decided(decisions[state], {})
    acting = {state: decision for state, decision in decisions.items() if acts(decision)}
    return Decided(next(iter((acting or decisions).values())), acting)
