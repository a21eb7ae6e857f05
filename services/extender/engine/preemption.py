# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes on which the scheduler's preemption may delete pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..interface import PodView, Victims
from .profile_state import ProfileState


def allowed_nodes(
    state: ProfileState, candidates: Mapping[str, Victims], pod: Callable[[], PodView], on_error: Callable[[str, Exception], None]
) -> list[str]:
    """Return the names of the candidates whose victims may be deleted, in their order.

    A node is dropped if an agent refuses its victims, or if the profile filters and would reject the node: then the pod could not run there
    after the deletion. An agent that raises an error refuses nothing. The scheduler accepts a reduced list (kube-scheduler
    ``preemption.go``, callExtenders).
    """
    rejected = state.scores(pod).rejections(list(candidates), state.nodes.numbers) if state.profile.filters else {}
    refusing = [one for one in state.profile.agents if one.agent.can_preempt]
    found = []
    for name, victims in candidates.items():
        if name in rejected:
            continue
        if not any(_violation(one.name, one.agent.preempt_violation, victims, on_error) for one in refusing):
            found.append(name)
    return found


def _violation(agent: str, rule: Callable[[Victims], str], victims: Victims, on_error: Callable[[str, Exception], None]) -> str:
    try:
        reason = rule(victims)
        if not isinstance(reason, str):
            raise TypeError(f"a reason is a text, and the agent returned {type(reason).__name__}")
        return reason
    except Exception as error:
        on_error(agent, error)
        return ""
