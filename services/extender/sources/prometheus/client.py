# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Instant queries to Prometheus' HTTP API (``/api/v1/query``). Of several servers the one that answered last is asked first."""

from __future__ import annotations

import time
import typing as t
from array import array
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode, urlsplit

from .....plugins.module_utils.model.codec import DecodeError
from ...memory_limits import answer_bytes
from ...pauses import Pause, no_pause, with_pauses
from ..http_reader import Answer, AnswerTooLargeError, HttpReader, SourceError
from ..settings import PrometheusSettings
from .answer import QueryAnswer, decode_answer, decode_samples, finite, known_rows
from .label_sets import INSTANCE, LabelSet, LabelSets
from .promql import count_text, shown_promql
from .row_limit import Crowded, RowLimit, Rows
from .row_orders import NO_ROWS, RowOrder, RowOrders
from .target_parts import TargetParts

PATH = "/api/v1/query"
SERVER_SHARE = 0.9
"""The share of the timeout that Prometheus may use. It then reports its own timeout before the request ends."""

QUERY_STATUSES = (400, 422)
"""The statuses of an answer about the query itself. Another server would give the same answer."""

VECTOR = "vector"


class QueryError(SourceError):
    """The query itself is refused, or has another type of result."""


class VectorRows(t.NamedTuple):
    """The finite values of a vector, with the label set of each.

    ``sent_at_s``: monotonic. The server evaluated the query after this time. ``evaluated_at_s``: the time of the evaluation by Prometheus'
    clock, in seconds since the epoch; None for an empty vector. ``crowded``: the targets that have too much, and no row here.
    """

    order: RowOrder
    values: array[float]
    sent_at_s: float
    evaluated_at_s: float | None
    crowded: Sequence[Crowded] = ()


class PrometheusClient:
    """The Prometheus servers of the settings. ``on_warning`` receives each warning of an answer. Used by one thread.

    ``node_of`` returns the node of a series or a target, or None. ``rows_read``: the rows of all answers so far. ``nodes``: the number of
    nodes if it is known. It limits the answers.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        label_sets: LabelSets,
        orders: RowOrders,
        *,
        node_of: Callable[[LabelSet], str | None],
        on_warning: Callable[[str], None] = lambda _text: None,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nodes: int | None = None
        self._max_answer_bytes = settings.max_answer_bytes
        self._readers = [HttpReader(url, settings.login, timeout_s=settings.timeout_s) for url in settings.urls]
        self._target_labels = tuple(dict.fromkeys((settings.node_label, INSTANCE)))
        self._parts = TargetParts(self._target_labels, label_sets, node_of)
        self._label_sets, self._orders, self._pause = label_sets, orders, pause
        self._server_timeout_s = max(0.1, settings.timeout_s * SERVER_SHARE)
        self._on_warning = on_warning
        self._clock = clock
        self.rows_read = 0

    def query(self, promql: str) -> VectorRows:
        """Return the vector of a query. Raises SourceError with the errors of all servers that were asked."""
        # Only texts: a list of exceptions is in a frame of their tracebacks, so the bodies in the frames would be kept.
        errors, unreachable = list[str](), True
        for reader in list(self._readers):
            sent_at_s = self._clock()
            try:
                rows = self._read_limited(reader, promql)
            except QueryError:
                raise
            except SourceError as error:
                errors.append(str(error))
                unreachable = unreachable and error.unreachable
                continue
            self._prefer(reader)
            self.rows_read += len(rows.values)
            return VectorRows(self._orders.only(promql, rows.labels), rows.values, sent_at_s, rows.evaluated_at_s, rows.crowded)
        raise SourceError("; ".join(errors), unreachable=unreachable)

    @property
    def servers(self) -> int:
        """Return the number of servers."""
        return len(self._readers)

    def prefer_next(self) -> None:
        """Ask the next server first from now on, because the first one has no data."""
        self._readers.append(self._readers.pop(0))

    def _prefer(self, reader: HttpReader) -> None:
        """Ask this server first from now on. Its values then do not alternate with those of the other servers."""
        if self._readers[0] is not reader:
            self._readers.remove(reader)
            self._readers.insert(0, reader)

    def _read_limited(self, reader: HttpReader, promql: str) -> Rows:
        """Return the rows of a query. If the answer is too large, the targets are asked in parts."""
        limit = self._max_answer_bytes or answer_bytes(self.nodes)
        try:
            return self._read(reader, promql, self._orders.before(promql), limit)
        except AnswerTooLargeError as error:
            too_large = AnswerTooLargeError(str(error))  # without the frames, which have the body
        try:
            counted = self._read(reader, count_text(promql, self._target_labels), NO_ROWS, limit)
        except QueryError:  # not a vector
            raise too_large from None
        if not counted.labels:
            raise too_large
        return self._parts.read(promql, counted, limit, lambda part, left: self._read(reader, part, NO_ROWS, left))

    def _read(self, reader: HttpReader, promql: str, before: RowOrder, limit: int) -> Rows:
        form = urlencode([("query", promql), ("timeout", f"{self._server_timeout_s * 1000:.0f}ms")]).encode()
        self._pause()
        response = reader.request("POST", PATH, max_bytes=limit, form=form)
        self._pause()
        answer, parts = _decoded(reader, response)
        if answer.status != "success" or answer.data is None:
            reason = reader.without_secrets(answer.error or f"status {response.status}")
            text = f"{reader.url} cannot answer {shown_promql(promql)}: {reason}"
            raise QueryError(text) if response.status in QUERY_STATUSES else SourceError(text)
        for warning in answer.warnings or ():
            self._on_warning(reader.without_secrets(warning))
        if answer.data.result_type != VECTOR:
            found = answer.data.result_type or "unknown"
            raise QueryError(f"the result of {shown_promql(promql)} is of the type {found}: a vector is expected")
        try:
            return self._rows(parts, before)
        except DecodeError as error:
            raise SourceError(f"the result of {shown_promql(promql)} from {reader.url} cannot be decoded: {error}") from error

    def _rows(self, parts: Iterator[bytes], before: RowOrder) -> Rows:
        """Return the rows. ``before``: the order of the last answer."""
        labels, values = list[LabelSet](), array("d")
        evaluated_at_s, label_sets, limit = None, self._label_sets, RowLimit(self._label_sets)
        for part in parts:
            known = known_rows(part, before.metrics, len(labels))
            if known is not None:
                labels += before.labels[len(labels) : len(labels) + len(known.values)]
                values.extend(known.values)
                evaluated_at_s = known.evaluated_at_s
                self._pause()
                continue
            for sample in with_pauses(decode_samples(part), self._pause):
                pair = sample.value
                value = finite(pair[1]) if pair is not None else None
                one = label_sets.get(bytes(sample.metric)) if value is not None else None
                if pair is not None and value is not None and one is not None and limit.admits(one):
                    label_sets.keep(one)
                    labels.append(one)
                    values.append(value)
                    evaluated_at_s = pair[0]  # the same in all samples of a vector
        used, used_values = limit.without_crowded(labels, values, self._pause)
        return Rows(used, used_values, evaluated_at_s, tuple(limit.crowded.values()))


def _decoded(reader: HttpReader, answer: Answer) -> tuple[QueryAnswer, Iterator[bytes]]:
    """Return the answer and its samples. Raises SourceError if it is not an answer of Prometheus' API."""
    if 300 <= answer.status < 400:
        raise SourceError(f"{reader.url} redirects to {_shown_location(reader, answer.location)}: give the URL of Prometheus")
    if answer.status in (401, 403):
        raise SourceError(f"{reader.url} rejects the credentials (status {answer.status}): check bearer_token_file, basic_auth and tls")
    if answer.content_type.startswith("text/html"):
        raise SourceError(f"{reader.url} returns an HTML page with the status {answer.status}: check that it is the URL of Prometheus")
    try:
        return decode_answer(answer.body)
    except DecodeError:
        if answer.status == 200:
            raise SourceError(f"the answer of {reader.url} is not JSON of Prometheus: check that it is the URL of Prometheus") from None
        remedy = f": check that it is the URL of Prometheus, without {PATH}" if answer.status == 404 else ""
        raise SourceError(f"{reader.url} answers with the status {answer.status}{remedy}") from None


def _shown_location(reader: HttpReader, location: str) -> str:
    """Return the scheme and the host of a redirect. Its path and its user may contain secrets."""
    try:
        parts = urlsplit(location)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "a location that is not valid"
    if not host:
        return "another path"
    shown_host = f"[{host}]" if ":" in host else host
    return reader.without_secrets(f"{parts.scheme or 'http'}://{shown_host}" + (f":{port}" if port else ""))
