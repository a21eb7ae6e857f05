# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Keeps what agents have learned in the ConfigMap ``kube-scheduling-extender``, so that a restart loses nothing.

Every process observes the cluster and learns. Only the holder of the Lease of the same name writes. A write is one patch of the ConfigMap
that is valid for the read version only, so that the ConfigMap is complete at any time. All requests are sent by one thread, so that an API
server that does not answer delays nothing else.

The texts in the ConfigMap are compressed, in base64, and begin with a version.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from functools import partial

from .....plugins.module_utils.kube.client.api import KubeApi
from .....plugins.module_utils.kube.client.errors import KubeError
from .....plugins.module_utils.operations.common.config_map_store import Changes, ConfigMapStore
from .....plugins.module_utils.operations.common.leader_lease import LeaderLease, identity
from ....common.log import Log
from ...sources.kubernetes.connection import open_kube_api
from ...sources.settings import KubernetesSettings
from .learning import LearningAgent

NAMESPACE, NAME = "kube-system", "kube-scheduling-extender"
SAVED_EVERY_S, RETRY_S = 30.0, 10.0
REQUEST_TIMEOUT_S = 5.0
"""The time for each request. The end of the program waits for at most a few of them."""

MAX_STATE_BYTES = 512 * 1024
"""The maximum of one state without compression, and of all texts of the ConfigMap."""
VERSION = "v1"
_OTHER = re.compile(r"[^-.A-Za-z0-9]")


class LearnedState:
    """Loads and saves what agents learn, by the keys of the agents. Without agents it does nothing.

    ``before``: the one of the settings before, whose last save this one waits for. ``on_error`` is called after each failure, for a metric.
    The same failure is logged once. ``connect`` returns the API of a cluster.
    """

    def __init__(
        self,
        kubernetes: KubernetesSettings | None,
        agents: Mapping[str, LearningAgent],
        log: Log,
        on_error: Callable[[], object],
        *,
        before: LearnedState | None = None,
        connect: Callable[[KubernetesSettings], KubeApi] | None = None,
    ) -> None:
        self._kubernetes, self._agents = kubernetes, agents
        self._log, self._on_error, self._connect, self._before = log, on_error, connect or open_kube_api, before
        self._cluster: tuple[ConfigMapStore, LeaderLease] | None = None
        self._is_loaded = False
        self._written: Mapping[str, str] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state of agents", daemon=True)
        # Each failure is logged once, until a save without it.
        self._failures: set[str] = set()
        self._logged: set[str] = set()

    def start(self) -> None:
        """Load, and save regularly in a thread, if this process holds the Lease."""
        if self._kubernetes is None and self._agents:
            names = sorted(self._agents)
            self._log.warning("the agents forget at the end what they learn, because sources.kubernetes is not configured", agents=names)
        self._thread.start()

    def replaced_by(self, kubernetes: KubernetesSettings | None, agents: Mapping[str, LearningAgent]) -> LearnedState:
        """Return the state with other settings, which is started, or this one if they are the same.

        An agent with a known key takes over what the agent before it has learned. The thread of this one saves for the last time, in the
        cluster before. After that the thread of the new one loads what is saved in the new cluster, and joins both.
        """
        if self._ending.is_set() or (kubernetes, agents) == (self._kubernetes, self._agents):
            return self
        for key in agents.keys() & self._agents.keys():
            if agents[key] is not self._agents[key]:
                self._load(key, agents[key], self._agents[key].save)
        self._ending.set()
        new = LearnedState(kubernetes, agents, self._log, self._on_error, before=self, connect=self._connect)
        new.start()
        return new

    def stop(self) -> None:
        """Save for the last time, release the Lease, and wait for that."""
        self._ending.set()
        if self._thread.ident is None:
            self._run()
        else:
            self._thread.join()

    def save(self) -> bool:
        """Load the states, if they were not loaded yet, and write those that have changed, if this process holds the Lease.

        Return False after a failure, which is logged. A state is not written before the saved one was loaded. A saved state that cannot be
        read is logged and replaced.
        """
        self._failures = set()
        if self._kubernetes is not None and self._agents:
            task = "loaded"
            try:
                store, lease = self._cluster = self._cluster or self._connected(self._kubernetes)
                if not self._is_loaded:
                    texts = store.read()
                    for key, agent in self._agents.items():
                        text = texts.get(state_key(key))
                        if text is not None:
                            self._load(key, agent, partial(decode_state, text))
                    self._is_loaded = True
                task = "saved"
                if lease.acquire(0):
                    self._write(store, lease)
            except KubeError as error:
                self._fail(f"what the agents have learned was not {task}: {error}")
        self._logged = self._failures
        return not self._failures

    def _run(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before.stop()
        while not self._ending.is_set():
            self._ending.wait(SAVED_EVERY_S if self.save() else RETRY_S)
        if self._cluster is not None:
            self.save()
            if self._cluster[1].held:
                self._cluster[1].release()

    def _connected(self, kubernetes: KubernetesSettings) -> tuple[ConfigMapStore, LeaderLease]:
        """Return the ConfigMap and the Lease. Raises KubeError if the settings cannot be used."""
        quick = self._connect(kubernetes).with_timeouts(retry_for_s=0.0, answer_timeout_s=REQUEST_TIMEOUT_S)
        lease = LeaderLease(quick, identity(), name=NAME, namespace=NAMESPACE)
        return ConfigMapStore(quick, name=NAME, namespace=NAMESPACE), lease

    def _load(self, key: str, agent: LearningAgent, state: Callable[[], bytes]) -> None:
        try:
            agent.load(state(), time.monotonic())
        # The agents of other packages may raise anything.
        except Exception as error:
            self._fail(f"the saved state of agent {key} is not used: {error}")

    def _write(self, store: ConfigMapStore, lease: LeaderLease) -> None:
        texts, own = self._texts(), set(map(state_key, self._agents))
        changed = {key: text for key, text in texts.items() if self._written.get(key) != text}
        if not changed:
            return

        def change(present: Mapping[str, str]) -> Changes:
            # After a conflict some time has passed, and another process may hold the Lease now.
            return {**_unused(present, changed, own), **changed} if lease.held else {}

        after = store.update(change)
        self._written = {key: text for key, text in texts.items() if after.get(key) == text}

    def _texts(self) -> dict[str, str]:
        """Return the texts of the agents. An agent without a text keeps its saved one."""
        found: dict[str, str] = {}
        for key, agent in self._agents.items():
            try:
                text = encode_state(agent.save())
            except Exception as error:
                reason = f"{error}" if isinstance(error, StateTextError) else f"{type(error).__name__}: {error}"
                self._fail(f"the state of agent {key} is not saved: {reason}")
                continue
            if sum(map(len, found.values())) + len(text) > MAX_STATE_BYTES:
                self._fail(f"the state of agent {key} is not saved: all states together have more than {MAX_STATE_BYTES} bytes")
                continue
            found[state_key(key)] = text
        return found

    def _fail(self, text: str) -> None:
        self._on_error()
        if text not in self._logged | self._failures:
            self._log.warning(text)
        self._failures.add(text)


def _unused(present: Mapping[str, str], changed: Mapping[str, str], own: set[str]) -> dict[str, None]:
    """Return the keys to drop: those that no agent has, if all texts together would exceed the limit.

    A profile that was removed from FILE keeps its key until then, because it may come back.
    """
    if sum(map(len, {**present, **changed}.values())) <= MAX_STATE_BYTES:
        return {}
    return {key: None for key in present if key not in own}


# --- the texts ---


class StateTextError(ValueError):
    """A text is not a saved state."""


def encode_state(state: bytes) -> str:
    """Return the text of a state. Equal states have equal texts. Raises StateTextError if the state is too long."""
    if len(state) > MAX_STATE_BYTES:
        raise StateTextError(f"the state has {len(state)} bytes, and the maximum is {MAX_STATE_BYTES}")
    return f"{VERSION}:{base64.b64encode(zlib.compress(state, 6)).decode()}"


def decode_state(text: str) -> bytes:
    """Return the state of a text. Raises StateTextError."""
    version, _colon, encoded = text.partition(":")
    if version != VERSION:
        raise StateTextError(f"the version is {version[:20]!r}, and this program reads {VERSION}")
    try:
        unpacker = zlib.decompressobj()
        state = unpacker.decompress(base64.b64decode(encoded, validate=True), MAX_STATE_BYTES + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise StateTextError(f"the text is damaged: {error}") from error
    if len(state) > MAX_STATE_BYTES or not unpacker.eof:
        raise StateTextError("the text is not complete or too long")
    return state


def state_key(agent: str) -> str:
    """Return the key of an agent in the ConfigMap.

    Keys have letters, digits, hyphens, dots and underscores only. Any other character is replaced by its number.
    """
    return _OTHER.sub(lambda found: f"_{ord(found[0]):x}_", agent)
