# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states of agents, in and out of them. The agents of other packages may raise anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..interface import Agent

Fail = Callable[[str], None]
"""Receives a sentence about a failure."""


def state_of(key: str, agent: Agent, fail: Fail) -> bytes | None:
    """Return the present state of an agent, or None after a failure."""
    try:
        return agent.save()
    except Exception as error:
        fail(f"the state of agent {key} is not saved: {type(error).__name__}: {error}")
        return None


def give(key: str, agent: Agent, state: bytes, fail: Fail) -> None:
    """Let an agent take over a state."""
    try:
        agent.load(state)
    except Exception as error:
        fail(f"the saved state of agent {key} is not used: {error}")


def hand_over(before: Mapping[str, Agent], agents: Mapping[str, Agent], fail: Fail) -> None:
    """Let each agent take over the present state of the agent before it, which has the same key."""
    for key, agent in agents.items():
        earlier = before.get(key)
        if earlier is None or earlier is agent:
            continue
        state = state_of(key, earlier, fail)
        if state is not None:
            give(key, agent, state, fail)
