# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The sources as one: a background thread refreshes them, and every refresh gives a new view of the cluster."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from ....plugins.module_utils.kube.client.api import KubeApi
from ....plugins.module_utils.kube.client.errors import KubeError
from ....plugins.module_utils.model.gc_pause import gc_paused
from ...common.allocator import release_free_memory
from ...common.log import Log
from ..interface import Query
from ..pauses import Pause, no_pause
from .kubernetes.connection import open_kube_api
from .kubernetes.kubernetes import ClusterWatch
from .missing import WITHOUT_KUBERNETES, unanswered_queries
from .node_exporter.node_exporter import NodeExporterSource
from .prometheus.prometheus import PrometheusSource
from .settings import SourceSettings
from .source_log import SourceLog
from .view import NO_CLUSTER, ClusterView, Readings, ViewListener
from .views import Views

SYNC_WAIT_S = 10.0
"""Seconds that a refresh waits for the first lists of nodes and pods. Later refreshes have them."""

JOIN_S = 5.0

COLLECTED_EVERY = 240
"""Refreshes between two full collections, which is an hour by default. They find the cycles that were excluded by mistake."""


class Sources:
    """Reads the queries from the sources of the settings and passes what it finds to ``listener``.

    The listener is called in the threads of the sources. It must not call this object. ``pause`` is called between parts of the work.
    ``api``: a connection that exists already; otherwise it is opened from the settings.
    """

    def __init__(
        self,
        settings: SourceSettings,
        queries: Sequence[Query],
        listener: ViewListener,
        log: Log,
        *,
        api: KubeApi | None = None,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._queries: tuple[Query, ...] = tuple(dict.fromkeys(queries))
        self._log = SourceLog(log)
        self._clock = clock
        self._api = api
        self._lock = threading.RLock()
        self._watch: ClusterWatch | None = None
        self._views = Views(listener, self._log, self._lock, pause)
        self._wake = threading.Event()
        self._stopping = False
        self._refreshing = threading.Lock()
        self._refreshes = 0
        self._thread = threading.Thread(target=self._run, name="refresh sources", daemon=True)
        self._source: PrometheusSource | NodeExporterSource | None = None
        if settings.prometheus is not None:
            self._source = PrometheusSource(settings.prometheus, on_warning=self._log.warned, pause=pause, clock=clock)
        elif settings.node_exporter is not None:
            self._source = NodeExporterSource(settings.node_exporter, clock=clock)

    def start(self) -> None:
        """Start the background thread. The first view comes after the first refresh, also if every source fails."""
        if self._settings.kubernetes is None:
            self._log.once(WITHOUT_KUBERNETES)
        self._thread.start()

    def stop(self) -> None:
        """End the threads. The listener is not called after this.

        A thread that waits for a server that does not answer ends later, without an effect.
        """
        self._stopping = True
        self._wake.set()
        self._views.stop()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.stop()
        if isinstance(self._source, NodeExporterSource):
            self._source.close()

    def set_queries(self, queries: Sequence[Query]) -> None:
        """Read these queries from now on, beginning with a refresh. The known values of equal queries stay."""
        self._queries = tuple(dict.fromkeys(queries))
        self._wake.set()

    def refresh_once(self) -> ClusterView:
        """Refresh all sources, pass the view to the listener, and return it. Errors of the sources are in the view.

        After ``stop`` the view is empty, and the listener does not receive it.
        """
        with self._refreshing, self._collecting_later():
            queries, errors = self._queries, dict[str, str]()
            watch = self._connected(errors)
            with self._lock:
                nodes = watch.nodes() if watch is not None else None
            # No lock is held, because the source waits for its servers.
            readings = self._source.read(queries, nodes) if self._source is not None and not self._stopping else Readings()
            # The answers were freed. The scores of two refreshes exist at the same time from now on.
            release_free_memory()
            if self._stopping:
                return ClusterView()
            if self._source is not None and readings.problems:
                errors[self._source.name] = readings.error
            errors |= unanswered_queries(queries, self._settings)
            self._log.errors(errors)
            if readings.unmapped:
                self._log.once("series belong to no node, or to several; --check-sources lists them", example=readings.unmapped[0].why)
            cluster = NO_CLUSTER if self._api is None else self._api.cluster
            view = ClusterView(0, {}, errors, readings.unmapped, self._clock(), readings.unmapped_count, cluster)
            return self._views.deliver(view, queries, readings.values, watch)

    # --- one refresh ---

    @contextlib.contextmanager
    def _collecting_later(self) -> Iterator[None]:
        """Run a refresh without garbage collections, and exclude the objects that exist then from the collections of the whole process.

        A view of 5,000 nodes has hundreds of thousands of objects that live until the next view. Their reference counts release them. A
        full collection that visits them takes 70 ms and more, and a request of the scheduler would wait for it.
        """
        with gc_paused():
            try:
                yield
            finally:
                self._refreshes += 1
                if self._refreshes % COLLECTED_EVERY == 0:
                    gc.unfreeze()
                    gc.collect()
                gc.freeze()

    def _connected(self, errors: dict[str, str]) -> ClusterWatch | None:
        """Return the watch of the cluster, or None if there is none or the settings of the connection cannot be used."""
        if self._settings.kubernetes is None:
            return None
        if self._watch is None:
            try:
                self._api = self._api or open_kube_api(self._settings.kubernetes)
                watch = ClusterWatch(self._api, self._lock, self._views.on_pods, clock=self._clock)
            except KubeError as error:
                errors[ClusterWatch.name] = str(error)
                return None
            with self._lock:
                if self._stopping:
                    return None
                self._watch = watch
                watch.start()
            watch.wait_until_synced(SYNC_WAIT_S)
        with self._lock:
            problem = self._watch.error
        if problem:
            errors[ClusterWatch.name] = problem
        return self._watch

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopping:
            begun_at_s = time.monotonic()
            self._wake.clear()
            try:
                self.refresh_once()
            except Exception as error:
                if self._stopping:  # The pool of the scrapes is closed.
                    return
                self._log.failed("the sources could not be refreshed", error)
            # The values of the refresh before were freed.
            release_free_memory()
            # Other queries and the end of the program are not delayed until the next refresh is due.
            self._wake.wait(max(0.0, begun_at_s + self._settings.refresh_s - time.monotonic()))
