# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Keeps what agents have learned in the ConfigMap ``kube-scheduling-extender``, so that a restart loses nothing.

Every process observes the cluster and learns. Only the holder of the Lease of the same name writes. A write is one patch of the ConfigMap
that is valid for the read version only, so that the ConfigMap is complete at any time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ....plugins.module_utils.kube.client.api import KubeApi
from ....plugins.module_utils.kube.client.errors import KubeError
from ....plugins.module_utils.operations.common.config_map_store import Changes, ConfigMapStore
from ....plugins.module_utils.operations.common.leader_lease import LeaderLease, identity
from ...common.log import Log
from ..interface import Agent
from .handover import give, hand_over, state_of
from .state_texts import MAX_STATE_BYTES, StateTextError, decode_state, encode_state, state_key

NAMESPACE, NAME = "kube-system", "kube-scheduling-extender"
SAVED_EVERY_S = 30.0
REQUEST_TIMEOUT_S = 5.0
"""The time for each request. The end of the program waits for at most a few of them."""


@dataclass(frozen=True, slots=True)
class StateStorage:
    """The ConfigMap with the texts, and the Lease whose holder may write it."""

    records: ConfigMapStore
    lease: LeaderLease


class StateKeeper:
    """Loads and saves the states of learning agents, by the keys of the agents.

    ``on_error`` receives each failure, for a metric. The same failure is logged once.
    """

    def __init__(
        self,
        storage: StateStorage,
        agents: Mapping[str, Agent],
        log: Log,
        *,
        on_error: Callable[[str], None] | None = None,
        saved_every_s: float = SAVED_EVERY_S,
    ) -> None:
        self._records, self._lease = storage.records, storage.lease
        self._agents = dict(agents)
        self._log, self._on_error, self._saved_every_s = log, on_error, saved_every_s
        self._stopping = threading.Event()
        self._working = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loaded = False
        self._written: Mapping[str, str] = {}
        # Each failure is logged once, until a save without it.
        self._failures: set[str] = set()
        self._logged: set[str] = set()

    @classmethod
    def connected(
        cls, api: KubeApi, agents: Mapping[str, Agent], log: Log, *, on_error: Callable[[str], None] | None = None
    ) -> StateKeeper:
        """Return a keeper that uses the cluster of ``api``."""
        quick = api.with_timeouts(retry_for_s=0.0, answer_timeout_s=REQUEST_TIMEOUT_S)
        lease = LeaderLease(quick, identity(), name=NAME, namespace=NAMESPACE)
        return cls(StateStorage(ConfigMapStore(quick, name=NAME, namespace=NAMESPACE), lease), agents, log, on_error=on_error)

    @property
    def is_writer(self) -> bool:
        """Return whether this process holds the Lease."""
        return self._lease.held

    def load(self) -> bool:
        """Load the states of all agents. Return False after a failure; it is logged, and ``start`` tries again.

        A state that cannot be read is logged and replaced by the next write.
        """
        with self._working:
            return self._load(self._agents)

    def start(self) -> None:
        """Save regularly in a thread, if this process holds the Lease."""
        if self._thread is not None:
            return
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="state of agents", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Save for the last time, and release the Lease."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()
        self.save()
        if self._lease.held:
            self._lease.release()

    def replace_agents(self, agents: Mapping[str, Agent]) -> None:
        """Take over other agents after a change of FILE. An agent with a known key takes over the present state of the agent before it."""
        with self._working:
            hand_over(self._agents, agents, self._fail)
            new = {key: agent for key, agent in agents.items() if key not in self._agents}
            self._agents = dict(agents)
            if new:
                self._load(new)

    def save(self) -> bool:
        """Write the states if they have changed and this process holds the Lease, or can acquire it.

        Return False after a failure, which is logged. Nothing is written before the saved states were loaded.
        """
        with self._working:
            self._failures = set()
            try:
                if (self._loaded or self._load(self._agents)) and self._lease.acquire(0):
                    self._write()
            except KubeError as error:
                self._fail(f"what the agents have learned was not saved: {error}")
            self._logged = self._failures
            return not self._failures

    def _run(self) -> None:
        while not self._stopping.wait(self._saved_every_s):
            self.save()

    def _load(self, agents: Mapping[str, Agent]) -> bool:
        try:
            texts = self._records.read()
        except KubeError as error:
            self._loaded = False
            self._fail(f"what the agents have learned was not loaded: {error}")
            return False
        for key, agent in agents.items():
            text = texts.get(state_key(key))
            if text is None:
                continue
            try:
                give(key, agent, decode_state(text), self._fail)
            except StateTextError as error:
                self._fail(f"the saved state of agent {key} is not used: {error}")
        self._loaded = True
        return True

    def _write(self) -> None:
        texts = self._texts()
        changed = {key: text for key, text in texts.items() if self._written.get(key) != text}
        if not changed:
            return

        def change(present: Mapping[str, str]) -> Changes:
            # After a conflict some time has passed, and another process may hold the Lease now.
            return {**self._unused(present, changed), **changed} if self._lease.held else {}

        after = self._records.update(change)
        self._written = {key: text for key, text in texts.items() if after.get(key) == text}

    def _unused(self, present: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, None]:
        """Return the keys to drop: those that no agent has, if all texts together would exceed the limit.

        A profile that was removed from FILE keeps its key until then, because it may come back.
        """
        if sum(map(len, {**present, **changed}.values())) <= MAX_STATE_BYTES:
            return {}
        own = set(map(state_key, self._agents))
        return {key: None for key in present if key not in own}

    def _texts(self) -> dict[str, str]:
        """Return the texts of all agents. An agent without a text keeps its saved one."""
        found: dict[str, str] = {}
        size = 0
        for key, agent in self._agents.items():
            state = state_of(key, agent, self._fail)
            if state is None:
                continue
            try:
                text = encode_state(state)
            except StateTextError as error:
                self._fail(f"the state of agent {key} is not saved: {error}")
                continue
            size += len(text)
            if size > MAX_STATE_BYTES:
                self._fail(f"the state of agent {key} is not saved: all states together have more than {MAX_STATE_BYTES} bytes")
                size -= len(text)
                continue
            found[state_key(key)] = text
        return found

    def _fail(self, text: str) -> None:
        if self._on_error is not None:
            self._on_error(text)
        if text not in self._logged:
            self._log.warning(text)
        self._logged.add(text)
        self._failures.add(text)
