# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Connects the agents that learn with their saved state. The scheduler is answered meanwhile, also if the API server cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ....plugins.module_utils.kube.client.errors import KubeError
from ...common.log import Log
from ..engine.profile import Profile
from ..interface import Agent
from ..sources.kubernetes.connection import open_kube_api
from ..sources.settings import KubernetesSettings
from .state_keeper import StateKeeper

RETRY_S = 10.0


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
        self._keeper: StateKeeper | None = None
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Connect in a thread."""
        with self._changing:
            self._start_if_needed()

    def replace_agents(self, profiles: Mapping[str, Profile]) -> None:
        """Take over the agents of other profiles."""
        with self._changing:
            self._agents = learning_agents(profiles)
            if self._keeper is not None:
                self._keeper.replace_agents(self._agents)
            self._start_if_needed()

    def stop(self) -> None:
        """Save for the last time."""
        self._stopping.set()
        with self._changing:
            if self._keeper is not None:
                self._keeper.stop()

    def _start_if_needed(self) -> None:
        if not self._agents or self._thread is not None:
            return
        if self._kubernetes is None:
            names = sorted(self._agents)
            self._log.warning("the agents forget at the end what they learn, because sources.kubernetes is not configured", agents=names)
            return
        self._thread = threading.Thread(target=self._connect, args=(self._kubernetes,), name="connect the state of agents", daemon=True)
        self._thread.start()

    def _connect(self, kubernetes: KubernetesSettings) -> None:
        problem = ""
        while not self._stopping.is_set():
            try:
                api = open_kube_api(kubernetes)
            except KubeError as error:
                self._on_error(str(error))
                if str(error) != problem:
                    self._log.warning("what the agents have learned cannot be loaded yet", error=str(error))
                problem = str(error)
                self._stopping.wait(RETRY_S)
                continue
            with self._changing:
                if self._stopping.is_set():
                    return
                self._keeper = StateKeeper.connected(api, self._agents, self._log, on_error=self._on_error)
                self._keeper.load()
                self._keeper.start()
                return
