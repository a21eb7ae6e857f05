# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Keeps what agents have learned in the ConfigMap ``kube-scheduling-extender``, so that a restart loses nothing.

Every process observes the cluster and learns. Only the holder of the Lease of the same name writes. A write is one patch of the ConfigMap
that is valid for the read version only, so that the ConfigMap is complete at any time. All requests are sent by one thread, so that an API
server that does not answer delays nothing else.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Callable, Mapping

from ....plugins.module_utils.kube.client.api import KubeApi
from ....plugins.module_utils.kube.client.errors import KubeError
from ....plugins.module_utils.operations.common.config_map_store import Changes, ConfigMapStore
from ....plugins.module_utils.operations.common.leader_lease import LeaderLease, identity
from ...common.log import Log
from ..engine.profile import Profile
from ..interface import Agent
from ..sources.kubernetes.connection import open_kube_api
from ..sources.settings import KubernetesSettings
from .agent_states import MAX_STATE_BYTES, StateTextError, decode_state, encode_state, give, hand_over, state_key, state_of

NAMESPACE, NAME = "kube-system", "kube-scheduling-extender"
SAVED_EVERY_S, RETRY_S = 30.0, 10.0
REQUEST_TIMEOUT_S = 5.0
"""The time for each request. The end of the program waits for at most a few of them."""

Connect = Callable[[KubernetesSettings], KubeApi]


class _Cluster(t.NamedTuple):
    """The cluster that keeps the states: the ConfigMap with the texts, and the Lease whose holder may write it.

    ``restored``: the keys of the agents that have taken over their saved state. ``written``: the texts of the last write.
    """

    settings: KubernetesSettings
    records: ConfigMapStore
    lease: LeaderLease
    restored: set[str]
    written: dict[str, str]


def learning_agents(profiles: Mapping[str, Profile]) -> dict[str, Agent]:
    """Return the agents that learn, by the profile and the name."""
    return {f"{profile.name}.{one.name}": one.agent for profile in profiles.values() for one in profile.agents if one.agent.learns}


class LearnedState:
    """Loads and saves what agents learn, by the keys of the agents. Without agents it does nothing.

    ``on_error`` receives each failure, for a metric. The same failure is logged once. ``connect`` returns the API of a cluster.
    """

    def __init__(
        self,
        kubernetes: KubernetesSettings | None,
        agents: Mapping[str, Agent],
        log: Log,
        on_error: Callable[[str], None],
        *,
        connect: Connect | None = None,
    ) -> None:
        self._kubernetes, self._agents = kubernetes, dict(agents)
        self._log, self._on_error, self._connect = log, on_error, connect or open_kube_api
        self._changing = threading.Lock()
        """Is held while agents are replaced or take over a state, but never during a request."""
        self._cluster: _Cluster | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="state of agents", daemon=True)
        # Each failure is logged once, until a save without it.
        self._failures: set[str] = set()
        self._logged: set[str] = set()

    @property
    def is_writer(self) -> bool:
        """Return whether this process holds the Lease."""
        return self._cluster is not None and self._cluster.lease.held

    def start(self) -> None:
        """Load, and save regularly in a thread, if this process holds the Lease."""
        self._warn_of_loss()
        self._thread.start()

    def replace(self, kubernetes: KubernetesSettings | None, agents: Mapping[str, Agent]) -> None:
        """Take over another cluster, or the same, and other agents.

        An agent with a known key takes over the present state of the agent before it. In another cluster it is joined with what is saved
        there. The thread saves the state in the cluster before for the last time.
        """
        with self._changing:
            hand_over(self._agents, agents, self._fail)
            if self._cluster is not None:
                # An agent that comes back later loads its saved state.
                self._cluster.restored.intersection_update(agents)
            self._kubernetes, self._agents = kubernetes, dict(agents)
        self._warn_of_loss()
        self._wake.set()

    def stop(self) -> None:
        """Save for the last time, release the Lease, and wait for that."""
        self._stopping = True
        self._wake.set()
        if self._thread.ident is None:
            self._run()
        else:
            self._thread.join()

    def save(self) -> bool:
        """Load the states that were not loaded yet, and write those that have changed, if this process holds the Lease or can acquire it.

        Return False after a failure, which is logged. A state is not written before the saved one was loaded. A saved state that cannot be
        read is logged and replaced.
        """
        self._failures = set()
        with self._changing:
            kubernetes, has_agents = self._kubernetes, bool(self._agents)
        if self._cluster is not None and self._cluster.settings != kubernetes:
            self._leave(self._cluster)
        if kubernetes is not None and (has_agents or self._cluster is not None):
            self._load_and_write(kubernetes)
        self._logged = self._failures
        return not self._failures

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            is_saved = self.save()
            self._wake.wait(SAVED_EVERY_S if is_saved else RETRY_S)
        if self._cluster is not None:
            self._leave(self._cluster)

    def _load_and_write(self, kubernetes: KubernetesSettings) -> None:
        try:
            cluster = self._cluster = self._cluster or self._connected(kubernetes)
            self._load(cluster)
        except KubeError as error:
            self._fail(f"what the agents have learned was not loaded: {error}")
            return
        try:
            if cluster.lease.acquire(0):
                self._write(cluster)
        except KubeError as error:
            self._fail(f"what the agents have learned was not saved: {error}")

    def _leave(self, cluster: _Cluster) -> None:
        """Save for the last time, and release the Lease."""
        self._load_and_write(cluster.settings)
        if cluster.lease.held:
            cluster.lease.release()
        self._cluster = None

    def _connected(self, kubernetes: KubernetesSettings) -> _Cluster:
        """Return the cluster. Raises KubeError if the settings cannot be used."""
        quick = self._connect(kubernetes).with_timeouts(retry_for_s=0.0, answer_timeout_s=REQUEST_TIMEOUT_S)
        lease = LeaderLease(quick, identity(), name=NAME, namespace=NAMESPACE)
        return _Cluster(kubernetes, ConfigMapStore(quick, name=NAME, namespace=NAMESPACE), lease, set(), {})

    def _load(self, cluster: _Cluster) -> None:
        if cluster.restored.issuperset(self._agents):
            return
        texts = cluster.records.read()
        with self._changing:
            for key in self._agents.keys() - cluster.restored:
                text = texts.get(state_key(key))
                try:
                    if text is not None:
                        give(key, self._agents[key], decode_state(text), self._fail)
                except StateTextError as error:
                    self._fail(f"the saved state of agent {key} is not used: {error}")
                cluster.restored.add(key)

    def _write(self, cluster: _Cluster) -> None:
        with self._changing:
            texts, own = self._texts(cluster.restored), set(map(state_key, self._agents))
        changed = {key: text for key, text in texts.items() if cluster.written.get(key) != text}
        if not changed:
            return

        def change(present: Mapping[str, str]) -> Changes:
            # After a conflict some time has passed, and another process may hold the Lease now.
            return {**_unused(present, changed, own), **changed} if cluster.lease.held else {}

        after = cluster.records.update(change)
        cluster.written.clear()
        cluster.written.update((key, text) for key, text in texts.items() if after.get(key) == text)

    def _texts(self, restored: set[str]) -> dict[str, str]:
        """Return the texts of the agents that have loaded theirs. An agent without a text keeps its saved one."""
        found: dict[str, str] = {}
        size = 0
        for key, agent in self._agents.items():
            state = state_of(key, agent, self._fail) if key in restored else None
            if state is None:
                continue
            try:
                text = encode_state(state)
            except StateTextError as error:
                self._fail(f"the state of agent {key} is not saved: {error}")
                continue
            if size + len(text) > MAX_STATE_BYTES:
                self._fail(f"the state of agent {key} is not saved: all states together have more than {MAX_STATE_BYTES} bytes")
                continue
            size += len(text)
            found[state_key(key)] = text
        return found

    def _warn_of_loss(self) -> None:
        if self._kubernetes is None and self._agents:
            names = sorted(self._agents)
            self._log.warning("the agents forget at the end what they learn, because sources.kubernetes is not configured", agents=names)

    def _fail(self, text: str) -> None:
        self._on_error(text)
        if text not in self._logged:
            self._log.warning(text)
        self._logged.add(text)
        self._failures.add(text)


def _unused(present: Mapping[str, str], changed: Mapping[str, str], own: set[str]) -> dict[str, None]:
    """Return the keys to drop: those that no agent has, if all texts together would exceed the limit.

    A profile that was removed from FILE keeps its key until then, because it may come back.
    """
    if sum(map(len, {**present, **changed}.values())) <= MAX_STATE_BYTES:
        return {}
    return {key: None for key in present if key not in own}
