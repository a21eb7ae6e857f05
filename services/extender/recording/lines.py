# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The lines of a recording: one JSON object in each line, whose ``kind`` is view, node, outcome or request.

A line ``view`` begins a new view without nodes. Each line ``node`` adds a node to it or replaces one. A request is answered from the view
that is complete at its line. All times are seconds of one clock.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping

from ....plugins.module_utils.model.codec import DecodeError, Struct, convert, decode_json, encode_json, field
from ..interface import Annotation, Expression, Gauge, NodeView, PodView, Query, Rate, Series

_QUERIES: Mapping[str, type[Query]] = {"annotation": Annotation, "expression": Expression, "gauge": Gauge, "rate": Rate}


class RecordingError(ValueError):
    """A line is not a line of a recording. The text names the line."""


class ViewLine(Struct, frozen=True, tag_field="kind", tag="view"):
    """The begin of a view. ``errors``: the errors of the sources."""

    at_s: float
    version: int = 0
    errors: dict[str, str] = field(default_factory=dict)


class SeriesLine(Struct, frozen=True, omit_defaults=True):
    """A value. ``query``: the kind of the query, followed by its fields. ``value`` is null if it is not a finite number."""

    query: list[t.Any]
    value: float | None
    labels: dict[str, str] = field(default_factory=dict)
    measured_at_s: float | None = None


class NodeLine(Struct, frozen=True, tag_field="kind", tag="node", omit_defaults=True):
    """A node, as agents see it."""

    at_s: float
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)
    series: tuple[SeriesLine, ...] = ()
    pods: tuple[PodView, ...] = ()


class OutcomeLine(Struct, frozen=True, tag_field="kind", tag="outcome"):
    """The outcome of a pod."""

    at_s: float
    pod: PodView
    node: str
    succeeded: bool


class RequestLine(Struct, frozen=True, tag_field="kind", tag="request"):
    """A request of kube-scheduler: the path, and the body as it was sent."""

    at_s: float
    path: str
    body: t.Any


Line = ViewLine | NodeLine | OutcomeLine | RequestLine


def decode_line(data: bytes) -> Line:
    """Return the line. Raises RecordingError."""
    try:
        return t.cast(Line, decode_json(t.cast(t.Any, Line), data))
    except DecodeError as error:
        raise RecordingError(str(error.__cause__ or error)) from None


def encode_line(line: Line) -> bytes:
    """Return the JSON of a line, with the end of the line."""
    return encode_json(line) + b"\n"


def node_line(node: NodeView, at_s: float) -> NodeLine:
    """Return the line of a node."""
    series = [
        SeriesLine(_query_parts(query), one.value if math.isfinite(one.value) else None, dict(one.labels), one.measured_at_s)
        for query, found in node.series.items()
        for one in found
    ]
    return NodeLine(at_s, node.name, dict(node.labels), dict(node.allocatable), tuple(series), tuple(node.pods))


def node_of(line: NodeLine) -> NodeView:
    """Return the node of a line. Raises RecordingError."""
    series: dict[Query, list[Series]] = {}
    for one in line.series:
        value = math.nan if one.value is None else one.value
        series.setdefault(_query_of(one.query), []).append(Series(one.labels, value, one.measured_at_s))
    return NodeView(line.name, line.labels, line.allocatable, series, line.pods)


def _query_parts(query: Query) -> list[t.Any]:
    return [type(query).__name__.lower(), *query]


def _query_of(parts: list[t.Any]) -> Query:
    kind = _QUERIES.get(parts[0]) if parts and isinstance(parts[0], str) else None
    if kind is None:
        raise RecordingError(f"a query begins with {', '.join(_QUERIES)}, and this one is {parts}")
    try:
        return convert(kind, parts[1:])
    except DecodeError as error:
        raise RecordingError(f"the query {parts} cannot be read: {error}") from None
