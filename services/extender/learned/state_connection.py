# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The connection of agents with their saved state in one cluster. Requests to an API server that does not answer delay only its thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ....plugins.module_utils.kube.client.errors import KubeError
from ...common.log import Log
from ..interface import Agent
from ..sources.kubernetes.connection import open_kube_api
from ..sources.settings import KubernetesSettings
from .handover import hand_over
from .state_keeper import StateKeeper

RETRY_S = 10.0


class StateConnection:
    """Connects agents with a cluster, keeps their state there, and saves it for the last time after ``end``. All this is in one thread.

    ``before``: an earlier connection. It must have ended before this one begins, because both may write the same ConfigMap.
    """

    def __init__(
        self,
        kubernetes: KubernetesSettings,
        agents: Mapping[str, Agent],
        log: Log,
        on_error: Callable[[str], None],
        before: StateConnection | None = None,
    ) -> None:
        self._kubernetes = kubernetes
        self._agents, self._log, self._on_error, self._before = agents, log, on_error, before
        self._keeper: StateKeeper | None = None
        self._changing = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connection of the state of agents", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def is_of(self, kubernetes: KubernetesSettings | None) -> bool:
        """Return whether this is the connection with this cluster, and it is not about to end."""
        return kubernetes == self._kubernetes and not self._ending.is_set()

    def replace_agents(self, agents: Mapping[str, Agent]) -> None:
        """Take over other agents. An agent with a known key takes over the present state of the agent before it."""
        with self._changing:
            if self._keeper is not None:
                self._keeper.replace_agents(agents)
            else:
                hand_over(self._agents, agents, self._fail)
            self._agents = agents

    def end(self) -> None:
        """Begin to save for the last time and to release the Lease. This method does not wait."""
        self._ending.set()

    def join(self) -> None:
        """Wait for the end, also for that of the connection before."""
        self._thread.join()

    def _run(self) -> None:
        if self._before is not None:
            self._before.join()
            self._before = None
        keeper = self._connected()
        self._ending.wait()
        if keeper is not None:
            keeper.stop()

    def _connected(self) -> StateKeeper | None:
        """Return the keeper of the state, or None if the connection must end before there is one."""
        problem = ""
        while not self._ending.is_set():
            try:
                api = open_kube_api(self._kubernetes)
            except KubeError as error:
                self._on_error(str(error))
                if str(error) != problem:
                    self._log.warning("what the agents have learned cannot be loaded yet", error=str(error))
                problem = str(error)
                self._ending.wait(RETRY_S)
                continue
            with self._changing:
                if self._ending.is_set():
                    return None
                self._keeper = StateKeeper.connected(api, self._agents, self._log, on_error=self._on_error)
                self._keeper.load()
                self._keeper.start()
                return self._keeper
        return None

    def _fail(self, text: str) -> None:
        self._on_error(text)
        self._log.warning(text)
