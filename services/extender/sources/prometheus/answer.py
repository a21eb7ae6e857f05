# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Decode the answers of Prometheus' API in short steps.

The answer for a cluster of 5,000 nodes has several megabytes. One call would hold the interpreter for 15 ms and more, and a request of the
scheduler would wait for it. So the series are decoded in parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, field

PART_BYTES = 32 * 1024
"""The size of a part. It is decoded in about 0.1 ms."""

_LIST = b'"result":['
_END = b"]}]"
"""The end of the last series and of the list of series."""

_SEPARATOR = b'},{"metric":'
"""The text between two series. It is in no string, because a quote in a string has a backslash before it."""

_HEAD_BYTES = 256


class Sample(Struct, frozen=True, gc=False):
    """One series of an instant vector. ``metric``: its labels as JSON. ``value``: the time of the evaluation in seconds, and the value.

    A native histogram has no ``value``.
    """

    metric: Raw
    value: tuple[float, str] | None = None


class Data(Struct, rename="camel", frozen=True):
    """The data of an answer."""

    result_type: str = ""
    result: Raw = field(default_factory=lambda: Raw(b"[]"))


class QueryAnswer(Struct, rename="camel", frozen=True):
    """An answer of ``/api/v1/query`` (Prometheus, "HTTP API")."""

    status: str = ""
    data: Data | None = None
    error: str = ""
    warnings: list[str] | None = None


def decode_answer(body: bytes | bytearray) -> tuple[QueryAnswer, Iterator[list[Sample]]]:
    """Return an answer and its series in parts. Raises DecodeError, also while the parts are read."""
    split = _split(body)
    if split is not None:
        answer, start, end = split
        return answer, _parts(body, start, end)
    answer = decode_json(QueryAnswer, bytes(body))
    return answer, _whole(answer)


def finite(text: str) -> float | None:
    """Return the number in a value, or None for NaN, infinity, and a text that is no number. Such a value is unknown."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _split(body: bytes | bytearray) -> tuple[QueryAnswer, int, int] | None:
    """Return the answer without its series, and the place of the series, or None if the answer does not have Prometheus' own form."""
    start, end = body.find(_LIST, 0, _HEAD_BYTES), body.rfind(_END)
    first = start + len(_LIST)
    if start < 0 or end < first:
        return None
    try:
        return decode_json(QueryAnswer, bytes(body[:first] + body[end + len(_END) - 1 :])), first, end + len(_END) - 1
    except DecodeError:
        return None


def _parts(body: bytes | bytearray, start: int, end: int) -> Iterator[list[Sample]]:
    while start < end:
        found = body.find(_SEPARATOR, start + PART_BYTES, end)
        last = found + 1 if found >= 0 else end
        yield decode_json(list[Sample], b"[%b]" % bytes(body[start:last]))
        start = last + 1


def _whole(answer: QueryAnswer) -> Iterator[list[Sample]]:
    if answer.data is not None:
        yield decode_json(list[Sample], answer.data.result)
