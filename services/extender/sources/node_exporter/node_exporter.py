# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Scrape the node_exporters of a small cluster directly, where there is no Prometheus."""

from __future__ import annotations

import re
import time
import typing as t
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

from .....plugins.module_utils.model.messages import first_texts
from ...interface import Expression, Gauge, LabelMatch, Query, Rate, Series
from ...memory_limits import MAX_LINE_BYTES
from ..http_reader import HttpReader, SourceError
from ..kubernetes.node_objects import NodeRecord
from ..prometheus.promql import shown_promql
from ..settings import NodeExporterSettings
from ..view import Readings
from .counters import CounterHistory
from .exposition import ExpositionError, Measurement, collectors_of, parse_exposition

MOST_PARALLEL = 16
"""Scrapes at the same time."""

MAX_PROBLEMS = 5
"""Nodes whose errors are shown. The others are counted."""

HistoryKey = tuple[str, str, frozenset[tuple[str, str]]]
"""Node, metric and labels of a counter."""

Wanted = Mapping[str, Callable[[Mapping[str, str]], bool]]
"""The metrics that are read, each with the condition on the labels of its series."""


class _Scrape(t.NamedTuple):
    """The answer of one exporter. ``at_s``: monotonic, before the request was sent."""

    at_s: float
    measurements: Mapping[str, list[Measurement]]


class NodeExporterSource:
    """Reads rates and gauges from the node_exporter of each node. ``read`` is called by one thread."""

    name = "node_exporter"

    def __init__(
        self,
        settings: NodeExporterSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._readers: dict[str, HttpReader] = {}
        self._counters: dict[HistoryKey, CounterHistory] = {}
        self._pool = ThreadPoolExecutor(MOST_PARALLEL, thread_name_prefix="scrape")

    def close(self) -> None:
        """End the threads of the scrapes."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def read(self, queries: Iterable[Query], nodes: Mapping[str, NodeRecord] | None) -> Readings:
        """Return the values of the queries by node. Errors are in the result. Queries for annotations are ignored."""
        readings, nodes = Readings(), nodes or {}
        scraped = _scraped(queries, readings)
        if len(nodes) > self._settings.max_nodes:
            most = self._settings.max_nodes
            readings.problems.append(f"the cluster has {len(nodes)} nodes, and at most {most} are scraped directly: use sources.prometheus")
            return readings
        if not scraped:
            return readings
        scrapes = self._scrape_all(nodes, _wanted(scraped), readings)
        self._note_counters(scrapes, [query for query in scraped if isinstance(query, Rate)])
        for query in scraped:
            found = {node: self._series(node, query, scrape) for node, scrape in scrapes.items()}
            readings.values[query] = {node: series for node, series in found.items() if series}
        return readings

    def _scrape_all(self, nodes: Mapping[str, NodeRecord], wanted: Wanted, readings: Readings) -> dict[str, _Scrape]:
        query = [("collect[]", collector) for collector in collectors_of(wanted)]
        self._readers = {node: self._reader(node, record.address) for node, record in nodes.items() if record.address}
        scrapes, errors = {}, [f"the node {node} has no InternalIP" for node, record in nodes.items() if not record.address]
        waiting = {node: self._pool.submit(self._scrape, reader, query, wanted) for node, reader in self._readers.items()}
        for node, future in waiting.items():
            found = future.result()
            if isinstance(found, str):
                errors.append(f"node {node}: {found}")
            else:
                scrapes[node] = found
        readings.problems += first_texts(errors, MAX_PROBLEMS, "nodes cannot be scraped")
        return scrapes

    def _reader(self, node: str, address: str) -> HttpReader:
        """Return the reader of a node. The one of the last refresh is used again, so that its connection stays open."""
        settings = self._settings
        host = f"[{address}]" if ":" in address else address
        url = f"{settings.scheme}://{host}:{settings.port}"
        known = self._readers.get(node)
        if known is not None and known.url == url:
            return known
        return HttpReader(url, settings, timeout_s=settings.timeout_s)

    def _scrape(self, reader: HttpReader, query: list[tuple[str, str]], wanted: Wanted) -> _Scrape | str:
        """Return the answer, or the error as a text.

        An exception in a future has a reference to itself by its traceback. The body in its frames would be kept for 240 refreshes, because
        garbage collections exclude it (see ``refresher.py``).
        """
        at_s, url = self._clock(), f"{reader.url}{self._settings.path}"
        try:
            answer = reader.request("GET", self._settings.path, max_bytes=self._settings.max_answer_bytes, query=query)
            if answer.status != 200:
                shown = reader.without_secrets(answer.body[:MAX_LINE_BYTES].decode("utf-8", "replace").strip())
                return f"{url} answers with the status {answer.status}{f': {shown}' if shown else ''}"
            if answer.content_type.startswith("text/html"):
                return f"{url} is an HTML page and not the metrics of node_exporter"
            return _Scrape(at_s, parse_exposition(answer.body, wanted))
        except SourceError as error:
            return str(error)
        except ExpositionError as error:
            return f"the metrics of {reader.url} cannot be read: {error}"

    def _note_counters(self, scrapes: Mapping[str, _Scrape], rates: list[Rate]) -> None:
        """Add the new samples of all counters. Counters that are not in the newest scrape of their node are removed.

        An exporter can name other devices at each scrape. Those of a node whose scrape has failed stay for the length of their window.
        """
        windows: dict[str, float] = {}
        for query in rates:
            windows[query.metric] = max(windows.get(query.metric, 0.0), query.window_s)
        before, now_s = self._counters, self._clock()
        self._counters = {
            (node, metric, labels): history
            for (node, metric, labels), history in before.items()
            if node not in scrapes and now_s - history.newest_s <= windows.get(metric, 0.0)
        }
        for node, scrape in scrapes.items():
            for metric, window_s in windows.items():
                for labels, value in scrape.measurements.get(metric, ()):
                    key = _key(node, metric, labels)
                    history = self._counters[key] = before.get(key) or CounterHistory()
                    history.add(scrape.at_s, value, window_s)

    def _series(self, node: str, query: Rate | Gauge, scrape: _Scrape) -> list[Series]:
        found = []
        for labels, value in scrape.measurements.get(query.metric, ()):
            if not _meets(labels, query.conditions):
                continue
            if isinstance(query, Gauge):
                found.append(Series(labels, value, scrape.at_s))
                continue
            history = self._counters.get(_key(node, query.metric, labels))
            rate = history.rate(query.window_s) if history is not None else None
            if rate is not None:
                found.append(Series(labels, rate, scrape.at_s))
        return found


def _scraped(queries: Iterable[Query], readings: Readings) -> list[Rate | Gauge]:
    """Return the queries that a scrape can answer. Expressions are problems of the readings."""
    found: list[Rate | Gauge] = []
    for query in queries:
        if isinstance(query, Expression):
            readings.problems.append(f"only Prometheus can answer {shown_promql(query.promql)}: use sources.prometheus")
        elif isinstance(query, (Rate, Gauge)):
            found.append(query)
    return found


def _wanted(queries: Iterable[Rate | Gauge]) -> Wanted:
    """Return the metrics of the queries. A series is read if it meets the conditions of one query of its metric."""
    conditions: dict[str, list[tuple[LabelMatch, ...]]] = {}
    for query in queries:
        conditions.setdefault(query.metric, []).append(query.conditions)

    def is_wanted(metric: str, labels: Mapping[str, str]) -> bool:
        return any(_meets(labels, one) for one in conditions[metric])

    return {metric: partial(is_wanted, metric) for metric in conditions}


def _meets(labels: Mapping[str, str], conditions: Iterable[LabelMatch]) -> bool:
    """Return whether the labels of a series meet all conditions. Raises ``re.error`` for a pattern that is not valid."""
    return all(_matches(one.pattern, labels.get(one.label, "")) != one.negative for one in conditions)


@lru_cache(maxsize=16384)
def _matches(pattern: str, value: str) -> bool:
    """Return whether the whole value matches. The same devices are asked for on every node."""
    return re.fullmatch(pattern, value) is not None


def _key(node: str, name: str, labels: Mapping[str, str]) -> HistoryKey:
    return node, name, frozenset(labels.items())
