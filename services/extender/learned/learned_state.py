# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Connects the agents that learn with their saved state. The scheduler is answered meanwhile, also if the API server cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ...common.log import Log
from ..engine.profile import Profile
from ..interface import Agent
from ..sources.settings import KubernetesSettings
from .handover import hand_over
from .state_connection import StateConnection


def learning_agents(profiles: Mapping[str, Profile]) -> dict[str, Agent]:
    """Return the agents that learn, by the profile and the name."""
    return {f"{profile.name}.{one.name}": one.agent for profile in profiles.values() for one in profile.agents if one.agent.learns}


class LearnedState:
    """Loads and saves what the agents of the profiles learn. Without such agents it does nothing.

    ``on_error`` receives each failure, for a metric.
    """

    def __init__(
        self, kubernetes: KubernetesSettings | None, profiles: Mapping[str, Profile], log: Log, on_error: Callable[[str], None]
    ) -> None:
        self._kubernetes, self._log, self._on_error = kubernetes, log, on_error
        self._agents = learning_agents(profiles)
        self._connection: StateConnection | None = None
        """The last connection, which may have ended."""
        self._is_stopped = False
        self._changing = threading.Lock()

    def start(self) -> None:
        """Connect in a thread."""
        with self._changing:
            self._connect_if_needed()

    def replace(self, kubernetes: KubernetesSettings | None, profiles: Mapping[str, Profile]) -> None:
        """Take over another cluster, or the same, and the agents of other profiles.

        The agents keep what they have learned. In another cluster it is joined with what is saved there. The state is saved in the cluster
        before for the last time; a thread does that, so that an API server that is gone does not delay this method.
        """
        with self._changing:
            if self._is_stopped:
                return
            before, self._agents = self._agents, learning_agents(profiles)
            self._kubernetes = kubernetes
            if self._connection is not None:
                if self._connection.is_of(kubernetes):
                    self._connection.replace_agents(self._agents)
                    return
                self._connection.end()
            hand_over(before, self._agents, self._fail)
            self._connect_if_needed()

    def stop(self) -> None:
        """Save for the last time."""
        with self._changing:
            self._is_stopped = True
            if self._connection is not None:
                self._connection.end()
        if self._connection is not None:
            self._connection.join()

    def _connect_if_needed(self) -> None:
        if not self._agents:
            return
        if self._kubernetes is None:
            names = sorted(self._agents)
            self._log.warning("the agents forget at the end what they learn, because sources.kubernetes is not configured", agents=names)
            return
        self._connection = StateConnection(self._kubernetes, self._agents, self._log, self._on_error, self._connection)
        self._connection.start()

    def _fail(self, text: str) -> None:
        self._on_error(text)
        self._log.warning(text)
