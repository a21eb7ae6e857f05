# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Instant queries to Prometheus' HTTP API (``/api/v1/query``). Of several servers the one that answered last is asked first."""

from __future__ import annotations

import math
import time
import typing as t
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from ....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, field
from .http_reader import Answer, HttpReader, SourceError
from .settings import PrometheusSettings

PATH = "/api/v1/query"
SERVER_SHARE = 0.9
"""The share of the timeout that Prometheus may use. It then reports its own timeout before the request ends."""

QUERY_STATUSES = (400, 422)
"""The statuses of an answer about the query itself. Another server would give the same answer."""


class Sample(Struct, frozen=True, gc=False):
    """One series of an instant vector. ``metric``: its labels as JSON. ``value``: the time of the evaluation in seconds, and the value.

    A native histogram has no ``value``.
    """

    metric: Raw
    value: tuple[float, str] | None = None


class Vector(t.NamedTuple):
    """The answer to a query. ``sent_at_s``: monotonic seconds. The server evaluated the query after this time."""

    samples: list[Sample]
    sent_at_s: float


class _Data(Struct, rename="camel", frozen=True):
    result_type: str = ""
    result: Raw = field(default_factory=lambda: Raw(b"[]"))


class _Answer(Struct, rename="camel", frozen=True):
    status: str = ""
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None


class PrometheusClient:
    """The Prometheus servers of the settings. ``on_warning`` receives each warning of an answer. Used by one thread."""

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        on_warning: Callable[[str], None] = lambda _text: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readers = [
            HttpReader(url, settings.login, timeout_s=settings.timeout_s, max_bytes=settings.max_answer_bytes) for url in settings.urls
        ]
        self._server_timeout_s = max(0.1, settings.timeout_s * SERVER_SHARE)
        self._on_warning = on_warning
        self._clock = clock

    def query(self, promql: str) -> Vector:
        """Return the vector of a query. Raises SourceError with the errors of all servers that were asked."""
        errors = []
        for reader in list(self._readers):
            sent_at_s = self._clock()
            try:
                samples = self._samples(reader, promql)
            except QueryError:
                raise
            except SourceError as error:
                errors.append(error)
                continue
            self._prefer(reader)
            return Vector(samples, sent_at_s)
        raise SourceError("; ".join(map(str, errors)), unreachable=all(error.unreachable for error in errors))

    def _prefer(self, reader: HttpReader) -> None:
        """Ask this server first from now on. Its values then do not alternate with those of the other servers."""
        if self._readers[0] is not reader:
            self._readers.remove(reader)
            self._readers.insert(0, reader)

    def _samples(self, reader: HttpReader, promql: str) -> list[Sample]:
        # Prometheus accepts a plain number of seconds; a duration with a unit must be a whole number, so that 1.8s would be refused.
        form = urlencode([("query", promql), ("timeout", f"{self._server_timeout_s:.3f}")]).encode()
        answer = reader.request("POST", PATH, form=form)
        found = _decoded(reader, answer)
        if found.status != "success" or found.data is None:
            text = f"{reader.url} cannot answer {promql}: {reader.without_secrets(found.error or f'status {answer.status}')}"
            raise QueryError(text) if answer.status in QUERY_STATUSES else SourceError(text)
        for warning in found.warnings or ():
            self._on_warning(reader.without_secrets(warning))
        if found.data.result_type != "vector":
            raise QueryError(f"the result of {promql} is of the type {found.data.result_type or 'unknown'}: a vector is expected")
        try:
            return decode_json(list[Sample], found.data.result)
        except DecodeError as error:
            raise SourceError(f"the result of {promql} from {reader.url} cannot be decoded: {error}") from error


class QueryError(SourceError):
    """The query itself is refused, or has another type of result."""


def _decoded(reader: HttpReader, answer: Answer) -> _Answer:
    """Return the answer. Raises SourceError if it is not an answer of Prometheus' API."""
    if 300 <= answer.status < 400:
        raise SourceError(f"{reader.url} redirects to {answer.location}: give that URL")
    if answer.status in (401, 403):
        raise SourceError(f"{reader.url} rejects the credentials (status {answer.status}): check bearer_token_file, basic_auth and tls")
    if answer.content_type.startswith("text/html"):
        raise SourceError(f"{reader.url} returns an HTML page with the status {answer.status}: check that it is the URL of Prometheus")
    try:
        return decode_json(_Answer, answer.body)
    except DecodeError:
        if answer.status == 200:
            raise SourceError(f"the answer of {reader.url} is not JSON of Prometheus: check that it is the URL of Prometheus") from None
        raise SourceError(f"{reader.url} answers with the status {answer.status}") from None


def finite(text: str) -> float | None:
    """Return the number in a value, or None for NaN, infinity, and a text that is no number. Such a value is unknown."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def evaluated_at(samples: Iterable[Sample]) -> float | None:
    """Return the time of the evaluation by Prometheus' clock, in seconds since the epoch. All samples of a vector have the same."""
    return next((sample.value[0] for sample in samples if sample.value is not None), None)
