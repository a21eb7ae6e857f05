# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The methods of an agent that learns. ``learned_state.py`` keeps what it has learned."""

from __future__ import annotations

from ...interface import Agent, PodView


class LearningAgent(Agent):
    """An agent that keeps a state between its calls."""

    def observe(self, pod: PodView, node: str, succeeded: bool, at_s: float) -> None:
        """Learn from the result of a placement: the pod, its node, whether it runs well, and the time of the observation."""
        raise NotImplementedError

    def save(self) -> bytes:
        """Return the learned state. The states of all agents have at most 512 KiB."""
        raise NotImplementedError

    def load(self, state: bytes, now_s: float) -> None:
        """Take over a learned state. Raises ValueError if it cannot be read; the agent is unchanged then."""
        raise NotImplementedError
