# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Instant queries to Prometheus' HTTP API (``/api/v1/query``). Of several servers the one that answered last is asked first."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlencode, urlsplit

from .....plugins.module_utils.model.codec import DecodeError
from ...memory_limits import MAX_LINE_BYTES, MAX_SERIES, answer_bytes, long_label_violation
from ...pauses import Pause, no_pause, with_pauses
from ..http_reader import Answer, AnswerTooLargeError, HttpReader, SourceError
from ..settings import PrometheusSettings
from .answer import QueryAnswer, decode_answer, decode_samples, finite, known_rows
from .label_sets import INSTANCE, LabelSet, LabelSets, Target
from .promql import count_text, shown_promql
from .target_parts import TOO_MANY, Crowded, Rows, TargetParts

PATH = "/api/v1/query"
SERVER_SHARE = 0.9
"""The share of the timeout that Prometheus may use. It then reports its own timeout before the request ends."""

QUERY_STATUSES = (400, 422)
"""The statuses of an answer about the query itself. Another server would give the same answer."""

VECTOR = "vector"


class QueryError(SourceError):
    """The query itself is refused, or has another type of result."""


class PrometheusClient:
    """The Prometheus servers of the settings. ``on_warning`` receives each warning of an answer. Used by one thread.

    ``node_of`` returns the node of a series or a target, or None. ``rows_read``: the rows of all answers so far. ``nodes``: the number of
    nodes if it is known. It limits the answers.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        label_sets: LabelSets,
        *,
        node_of: Callable[[LabelSet], str | None],
        on_warning: Callable[[str], None] = lambda _text: None,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nodes: int | None = None
        self._max_answer_bytes = settings.max_answer_bytes
        self._readers = [HttpReader(url, settings, timeout_s=settings.timeout_s) for url in settings.urls]
        self._target_labels = tuple(dict.fromkeys((settings.node_label, INSTANCE)))
        self._parts = TargetParts(self._target_labels, node_of)
        self._label_sets, self._pause = label_sets, pause
        self._server_timeout_s = max(0.1, settings.timeout_s * SERVER_SHARE)
        self._on_warning = on_warning
        self._clock = clock
        self.rows_read = 0

    def query(self, promql: str) -> Rows:
        """Return the vector of a query. Raises SourceError with the errors of all servers that were asked."""
        # Only texts are kept. A list of exceptions would be in a frame of their tracebacks, and the bodies in the frames would not be
        # freed.
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
            self._label_sets.note_use(with_pauses(rows.labels, self._pause))
            return rows._replace(sent_at_s=sent_at_s)
        raise SourceError("; ".join(errors), unreachable=unreachable)

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
            return self._read(reader, promql, limit)
        except AnswerTooLargeError as error:
            too_large = AnswerTooLargeError(str(error))  # without the frames, which have the body
        try:
            counted = self._read(reader, count_text(promql, self._target_labels), limit)
        except QueryError:  # not a vector
            raise too_large from None
        if not counted.labels:
            raise too_large
        return self._parts.read(promql, counted, limit, lambda part, left: self._read(reader, part, left))

    def _read(self, reader: HttpReader, promql: str, limit: int) -> Rows:
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
            return self._rows(parts)
        except DecodeError as error:
            raise SourceError(f"the result of {shown_promql(promql)} from {reader.url} cannot be decoded: {error}") from error

    def _rows(self, parts: Iterator[bytes]) -> Rows:
        """Return the rows. Targets with too many series, or with too long labels, have none."""
        labels, values, evaluated_at_s = list[LabelSet](), array("d"), None
        known, crowded = self._label_sets.known, dict[Target, Crowded]()
        new: Counter[Target] = Counter()
        for part in parts:
            found = known_rows(part, known)
            if found is not None:
                labels += found.labels
                values.extend(found.values)
                evaluated_at_s = found.evaluated_at_s
                self._pause()
                continue
            for sample in with_pauses(decode_samples(part), self._pause):
                value = finite(sample.value[1]) if sample.value is not None else None
                if sample.value is None or value is None:
                    continue
                metric = bytes(sample.metric)
                one = known.get(metric) or self._admitted(metric, new, crowded)
                if one is not None:
                    labels.append(one)
                    values.append(value)
                    evaluated_at_s = sample.value[0]  # the same in all samples of a vector
        return self._without_crowded(Rows(labels, values, evaluated_at_s, crowded))

    def _admitted(self, metric: bytes, new: Counter[Target], crowded: dict[Target, Crowded]) -> LabelSet | None:
        """Return a new label set, or None if its target has too much. ``new`` counts those of each target."""
        one = self._label_sets.made(metric)
        if one.target in crowded:
            return None
        new[one.target] += 1
        if len(metric) > MAX_LINE_BYTES:
            why = f"the labels of a series have more than {MAX_LINE_BYTES} bytes"
        else:
            why = TOO_MANY if new[one.target] > MAX_SERIES else long_label_violation(one.labels)
        if why:
            crowded[one.target] = Crowded(one, why)
            return None
        self._label_sets.keep(one)
        return one

    def _without_crowded(self, rows: Rows) -> Rows:
        """Return the rows without those of crowded targets."""
        numbers = Counter(one.target for one in with_pauses(rows.labels, self._pause))
        if not rows.crowded and max(numbers.values(), default=0) <= MAX_SERIES:
            return rows
        used = Rows([], array("d"), rows.evaluated_at_s, rows.crowded)
        for one, value in with_pauses(zip(rows.labels, rows.values, strict=True), self._pause):
            if numbers[one.target] > MAX_SERIES:
                used.crowded.setdefault(one.target, Crowded(one, TOO_MANY))
            if one.target not in used.crowded:
                used.labels.append(one)
                used.values.append(value)
        return used


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
