# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Connects settings, agents, sources, engine and server. This is the only file that knows all of them."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..common.health import Health
from ..common.http.server import HttpServer
from ..common.log import Log
from ..common.signals import ShutdownSignal
from ..common.version import version
from .agents.original.learned_state import LearnedState
from .agents.original.learning import LearningAgent
from .config.settings import Inputs, Settings
from .config.watch import ConfigWatch
from .engine.engine import Engine
from .engine.profile import Profile
from .engine.recent_pods import RecentPods
from .http.app import App
from .http.pages.status_api import StatusApi
from .http.scheduler_api import SchedulerApi
from .http.server import run_servers
from .http.tls import TlsWatch
from .http.unprofiled_pods import UnprofiledPods
from .interface import Query
from .metrics import Metrics
from .pauses import RequestPause
from .recording.recorder import Recorder
from .reload_faults import CERTIFICATE_FAULT, FILE_FAULT, ReloadFaults
from .sources.refresher import Sources

HEARTBEAT_S = 1.0
FILES_EVERY = 3
"""The heartbeats between two readings of FILE and of the certificates."""

LATE_REFRESHES, LATE_S = 3, 60.0
"""The program is not ready if the last refresh is older than three intervals and a minute."""

NOT_REFRESHED = "the sources have not been read yet"


class Extender:
    """The program. The constructor raises OSError if it cannot listen, if a certificate cannot be read, or if it cannot record."""

    def __init__(self, inputs: Inputs, settings: Settings, log: Log, shutdown: ShutdownSignal) -> None:
        self._log, self._shutdown, self._settings = log, shutdown, settings
        self._metrics, self._health = Metrics(log), Health()
        self._metrics.refused_agents.set(len(settings.refused))
        self._faults = ReloadFaults()
        self._pause = RequestPause()
        self._engine = Engine(settings.profiles, self._metrics, pause=self._pause)
        self._recorder = Recorder(Path(settings.record), self._engine, log) if settings.record else None
        self._sources = self._make_sources(settings)
        self._watch = ConfigWatch(inputs, settings, self._metrics, self._faults, log)
        tls = settings.server.tls
        self._tls = TlsWatch(tls) if tls is not None else None
        self._servers = self._make_servers(settings)
        self._learned = LearnedState(settings.sources.kubernetes, learning_agents(settings.profiles), log, self._metrics.state_errors.inc)

    def run(self) -> None:
        """Serve until a signal requests the end. Raises ThreadDiedError, and any error of this program itself."""
        self._health.set_unready([NOT_REFRESHED])
        self._learned.start()
        self._sources.start()
        try:
            run_servers(self._servers, self._shutdown, self._background, self._on_started)
        finally:
            self._health.set_unready(["it has ended"])
            self._sources.stop()
            self._learned.stop()
            if self._recorder is not None:
                self._recorder.close()

    # --- the parts ---

    def _make_sources(self, settings: Settings) -> Sources:
        return Sources(settings.sources, queries_of(settings.profiles), self._recorder or self._engine, self._log, pause=self._pause)

    def _make_servers(self, settings: Settings) -> Sequence[HttpServer]:
        """Return the server for the scheduler, and that of the second address if there is one."""
        recent = RecentPods()
        status_api = StatusApi(
            self._engine,
            recent,
            self._metrics.registry,
            self._health,
            self._faults,
            {"version": version(), "python": platform.python_version()},
        )
        record = self._recorder.record if self._recorder is not None else None
        unprofiled = UnprofiledPods(self._log)
        api = SchedulerApi(self._engine, self._metrics, recent, record, pauses=self._pause, on_no_profile=unprofiled.note)
        app = App(api, status_api, self._metrics, self._log)
        context = self._tls.context if self._tls is not None else None
        limits = settings.server
        servers = [HttpServer(settings.listen, app, context, max_body_bytes=limits.max_body_bytes, head_s=limits.request_timeout_s)]
        if settings.status_address is not None:
            servers.append(HttpServer(settings.status_address, App(None, status_api, self._metrics, self._log)))
        return servers

    # --- the event loop ---

    def _on_started(self) -> None:
        addresses = [str(server.address) for server in self._servers]
        self._log.info(
            "serving",
            address=addresses[0],
            status_address=addresses[1] if len(addresses) > 1 else None,
            tls=self._tls is not None,
            profiles=list(self._settings.profiles),
            version=version(),
        )

    async def _background(self) -> None:
        """Keep the health up to date, and take over changed files."""
        beat = 0
        while True:
            self._shutdown.raise_thread_errors()
            self._health.heartbeat()
            self._health.set_unready(self._unready_reasons())
            beat += 1
            if beat % FILES_EVERY == 0:
                await self._take_over_files()
            await asyncio.sleep(HEARTBEAT_S)

    async def _take_over_files(self) -> None:
        try:
            await asyncio.to_thread(self._take_over_settings)
            await self._take_over_certificates()
        # The scheduler must be answered whatever an administrator writes.
        except Exception as error:
            self._metrics.reloads.labels("failure").inc()
            self._faults.note(FILE_FAULT, [f"it could not be taken over: {error}"])
            self._log.error(f"a changed file could not be taken over: {error}", cause=error)

    def _unready_reasons(self) -> list[str]:
        if not self._engine.has_refreshed:
            return [NOT_REFRESHED]
        age_s = time.monotonic() - self._engine.current.view.refreshed_at_s
        if age_s > LATE_REFRESHES * self._settings.sources.refresh_s + LATE_S:
            return [f"the sources were read {age_s:.0f} s ago, and not since then"]
        return []

    def _take_over_settings(self) -> None:
        before = self._settings
        settings = self._watch.changed()
        if settings is None:
            return
        queries = queries_of(settings.profiles)
        self._settings = settings
        self._metrics.refused_agents.set(len(settings.refused))
        for text in (*settings.refused, *settings.notes):
            self._log.warning(text)
        self._learned = self._learned.replaced_by(settings.sources.kubernetes, learning_agents(settings.profiles))
        self._engine.reconfigure(settings.profiles)
        if settings.sources == before.sources:
            self._sources.set_queries(queries)
        else:
            self._sources.stop()
            self._sources = self._make_sources(settings)
            self._sources.start()
        self._log.info("FILE was read again", profiles=list(settings.profiles))

    async def _take_over_certificates(self) -> None:
        if self._tls is None:
            return
        try:
            change = await asyncio.to_thread(self._tls.change)
        except OSError as error:
            # A pair that is half written is tried again, without a line for each attempt.
            if self._faults.note(CERTIFICATE_FAULT, [str(error)]):
                self._metrics.reloads.labels("failure").inc()
                self._log.error(CERTIFICATE_FAULT, error=str(error))
            return
        self._faults.remove(CERTIFICATE_FAULT)
        if change is not None:
            self._servers[0].replace_context(change.context, end_connections=change.authority)
            self._metrics.reloads.labels("success").inc()
            self._log.info("the certificate was read again", certificate=change.pair, client_authority=change.authority)


def learning_agents(profiles: Mapping[str, Profile]) -> dict[str, LearningAgent]:
    """Return the agents that learn, by the profile and the name."""
    agents = [(f"{profile.name}.{one.name}", one.agent) for profile in profiles.values() for one in profile.agents]
    return {key: agent for key, agent in agents if isinstance(agent, LearningAgent)}


def queries_of(profiles: Mapping[str, Profile]) -> Sequence[Query]:
    """Return the queries of all agents, each once."""
    return list(dict.fromkeys(query for profile in profiles.values() for one in profile.agents for query in one.agent.queries))
