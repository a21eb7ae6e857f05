# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Answers that are decoded in parts have the same series as answers that are decoded as a whole."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import DecodeError
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus import answer as prometheus_answer
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.answer import decode_answer, decode_samples, known_rows
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.label_sets import LabelSets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

COMPACT = (",", ":")
TRICKY = st.text(max_size=6) | st.sampled_from(['},{"metric":', '"]}]', "]}]}", '\\"},{', '"result":['])

LABELS = st.dictionaries(st.sampled_from(["a", "metric", "instance"]), TRICKY, max_size=3)


def body(result: t.Any, *, separators: tuple[str, str] = COMPACT, **more: t.Any) -> bytes:
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}, **more}
    return json.dumps(answer, separators=separators, ensure_ascii=False).encode()


def series_of(data: bytes) -> tuple[list[tuple[t.Any, t.Any]], int]:
    """Return labels and value of each series, and the number of parts."""
    _answer, parts = decode_answer(data)
    found = [decode_samples(part) for part in parts]
    return [(json.loads(bytes(sample.metric)), sample.value) for part in found for sample in part], len(found)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_answer, "PART_BYTES", 100)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LABELS, max_size=8), st.lists(TRICKY, max_size=2))
def test_parts_have_all_series(label_sets: list[dict[str, str]], warnings: list[str]) -> None:
    result = [{"metric": labels, "value": [1.5, "2"]} for labels in label_sets]
    expected = [(labels, (1.5, "2")) for labels in label_sets]
    more: dict[str, t.Any] = {"warnings": warnings} if warnings else {}
    for data in (body(result, **more), body(result, separators=(", ", ": "), **more)):
        assert series_of(data)[0] == expected


SETS = LabelSets("instance")
METRICS = [b'{"instance":"a"}', b'{"instance":"b"}', b"{}"]
LABEL_SETS = {metric: SETS.made(metric) for metric in METRICS[1:]}


def part_of(*rows: tuple[bytes, bytes, bytes]) -> bytes:
    return b"[%b]" % b",".join(b'{"metric":%b,"value":[%b,"%b"]}' % row for row in rows)


def test_of_known_series_the_values_are_decoded() -> None:
    part = part_of((METRICS[1], b"5.25", b"-1.5"), (METRICS[2], b"5.25", b"2e3"))
    assert known_rows(part, LABEL_SETS) == (list(LABEL_SETS.values()), [-1.5, 2000.0], 5.25)
    assert [sample.value for sample in decode_samples(part)] == [(5.25, "-1.5"), (5.25, "2e3")]
    assert known_rows(part_of((METRICS[2], b"7", b"0")), LABEL_SETS) == ([LABEL_SETS[METRICS[2]]], [0.0], 7.0)


KNOWN = (METRICS[1], b"5", b"1")


@pytest.mark.parametrize(
    "part",
    [
        part_of((METRICS[0], b"5", b"1")),
        part_of(KNOWN, (METRICS[0], b"5", b"1")),
        part_of((METRICS[1], b"5", b"NaN")),
        part_of((METRICS[1], b"5", b"+Inf")),
        part_of((METRICS[1], b"5", b"1e999")),
        part_of((METRICS[1], b"5", b"1e400"), (METRICS[2], b"5", b"-1e400")),
        part_of((METRICS[1], b"5", b"1.2.3")),
        part_of((METRICS[1], b"05", b"1")),
        part_of((METRICS[1], b"5", b'1","x')),
        part_of(KNOWN) + b" ",
        part_of(KNOWN)[:-1],
        part_of(KNOWN)[:-2] + b"]",
        part_of(KNOWN).replace(b"}]", b"}}]"),
        part_of(KNOWN, KNOWN).replace(b"},{", b"}{"),
        part_of(KNOWN).replace(b"}]", b'},{"metric":]'),
        b'[{"metric":{"instance":"b"},"histogram":[5,{}]}]',
        b"[]",
        b"",
    ],
)
def test_a_part_that_differs_from_the_known_series_is_not_taken(part: bytes) -> None:
    assert known_rows(part, LABEL_SETS) is None


def test_a_long_answer_has_several_parts() -> None:
    result = [{"metric": {"instance": f"node-{number}"}, "value": [1, "1"]} for number in range(50)]
    series, parts = series_of(body(result))
    assert len(series) == 50 and parts > 10


def test_another_layout_is_decoded_as_a_whole() -> None:
    result = [{"metric": {"instance": f"node-{number}"}, "value": [1, "1"]} for number in range(50)]
    series, parts = series_of(json.dumps({"data": {"result": result, "resultType": "vector"}, "status": "success"}).encode())
    assert len(series) == 50 and parts == 1


@pytest.mark.parametrize("data", [b"", b"[]", b'{"status":"success","data":{"result":[{"metric":{}]}', b"\xff"])
def test_other_bytes_raise_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        series_of(data)
