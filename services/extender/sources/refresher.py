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
from ..interface import Annotation, NodeView, PodView, Query
from ..pauses import Pause, no_pause
from .clock import Clock
from .delivery import Delivery
from .known_values import KnownValues
from .kubernetes.connection import open_kube_api
from .kubernetes.kubernetes import ClusterWatch
from .kubernetes.pod_tracker import PodChanges
from .missing import WITHOUT_KUBERNETES, unanswered_queries
from .node_exporter.node_exporter import NodeExporterSource
from .node_mapping import NodeTable
from .prometheus.prometheus import PrometheusSource
from .readings import Readings
from .settings import KubernetesSettings, SourceSettings
from .source_log import SourceLog
from .view import NO_CLUSTER, ClusterView, ViewListener
from .view_builder import views_of_cluster, views_without_cluster

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
        self._has_cluster = api is not None or settings.kubernetes is not None
        self._lock = threading.RLock()
        self._watch: ClusterWatch | None = None
        self._values = KnownValues()
        self._pause = pause
        self._delivery = Delivery(listener, self._log, self._lock)
        self._wake = threading.Event()
        self._stopping = False
        self._refreshing = threading.Lock()
        self._refreshes = 0
        self._thread = threading.Thread(target=self._run, name="refresh sources", daemon=True)
        self._prometheus = (
            PrometheusSource(settings.prometheus, on_warning=self._on_warning, pause=pause, clock=clock)
            if settings.prometheus is not None
            else None
        )
        self._node_exporter = NodeExporterSource(settings.node_exporter, clock=clock) if settings.node_exporter is not None else None

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
        self._delivery.stop()
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.stop()
        if self._node_exporter is not None:
            self._node_exporter.close()

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
            readings = self._read(watch, queries)
            # The answers were freed. The scores of two refreshes exist at the same time from now on.
            release_free_memory()
            if self._stopping:
                return ClusterView()
            errors |= {name: found.error for name, found in readings.items() if found.problems}
            is_measured = self._prometheus is not None or self._node_exporter is not None
            errors |= unanswered_queries(queries, is_measured=is_measured, has_cluster=self._has_cluster)
            values = {query: by_node for found in readings.values() for query, by_node in found.values.items()}
            self._values.update(queries, values, self._clock())
            return self._deliver(watch, queries, readings, errors)

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
        if not self._has_cluster:
            return None
        if self._watch is None:
            try:
                self._api = self._api or open_kube_api(self._settings.kubernetes or KubernetesSettings())
                watch = ClusterWatch(self._api, self._lock, self._on_pods, clock=self._clock)
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

    def _read(self, watch: ClusterWatch | None, queries: tuple[Query, ...]) -> dict[str, Readings]:
        """Return the readings of each source. No lock is held, because the sources wait for their servers."""
        readings: dict[str, Readings] = {}
        if self._prometheus is not None:
            with self._lock:
                table = watch.node_table() if watch is not None else UNKNOWN_NODES
            readings[PrometheusSource.name] = self._prometheus.read(queries, table)
        if self._node_exporter is not None and watch is not None and not self._stopping:
            with self._lock:
                nodes = watch.nodes()
            readings[NodeExporterSource.name] = self._node_exporter.read(queries, nodes)
        return readings

    def _deliver(
        self, watch: ClusterWatch | None, queries: tuple[Query, ...], readings: dict[str, Readings], errors: dict[str, str]
    ) -> ClusterView:
        """Make the view and deliver it."""
        unmapped = [series for found in readings.values() for series in found.unmapped.listed]
        count = sum(found.unmapped.count for found in readings.values())
        self._log.errors(errors)
        if unmapped:
            self._log.once("series belong to no node, or to several; --check-sources lists them", example=unmapped[0].why)
        self._delivery.note_changes()
        nodes = self._made_nodes(watch, queries)
        cluster = NO_CLUSTER if self._api is None else self._api.cluster
        view = ClusterView(0, nodes, errors, unmapped, self._clock(), count, cluster)
        return self._delivery.deliver(view, watch.tracker.pods_on if watch is not None else no_pods)

    def _made_nodes(self, watch: ClusterWatch | None, queries: tuple[Query, ...]) -> dict[str, NodeView]:
        """Return the nodes of the view. The lock is held for short times only, because the watches wait for it."""
        values = self._values.by_query()
        if watch is None:
            return views_without_cluster(values)
        with self._lock:
            table, nodes = watch.node_table(), watch.nodes()
            clock = Clock(self._clock(), watch.moment().server_now_s)
            watch.tracker.forget_ended(clock.now_s)
        if not table.is_known:
            return views_without_cluster(values)

        def pods_on(name: str) -> tuple[PodView, ...]:
            with self._lock:
                return watch.tracker.pods_on(name)

        annotations = [query for query in queries if isinstance(query, Annotation)]
        return views_of_cluster(values, nodes, annotations, pods_on, clock, self._log, self._pause)

    def _on_pods(self, changes: PodChanges) -> None:
        """Deliver the changes of pods. The watch calls it under the lock."""
        if self._watch is not None:
            self._delivery.take_over(changes, self._watch.tracker.pods_on)

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

    def _on_warning(self, text: str) -> None:
        self._log.once("the source prometheus has a warning", text=text)


UNKNOWN_NODES = NodeTable(None)
"""The table without sources.kubernetes. It is one object, so that label sets are not mapped again."""


def no_pods(_node: str) -> tuple[PodView, ...]:
    """Return no pods, for sources without a cluster."""
    return ()
