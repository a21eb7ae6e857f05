# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed series are the same as unpacked ones, and need little memory."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation, Gauge, Query, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.packed_series import Layout, NodeSeries, Numbers, PackedSeries
from ansible_collections.onprem.kube_scheduling.services.extender.sources.views import KEPT_S, KnownValues
from hypothesis import given
from hypothesis import strategies as st

LOAD, SPEED, NOTE = Gauge("load"), Gauge("speed"), Annotation("note")
SERIES = st.builds(
    Series,
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    st.floats(allow_nan=False),
    st.none() | st.floats(0, 1e9),
)
BY_NODE = st.dictionaries(st.sampled_from("abcdef"), st.lists(SERIES, min_size=1, max_size=3).map(tuple))


@given(st.lists(BY_NODE, max_size=4))
def test_packed_series_are_those_that_were_packed(queries: list[dict[str, tuple[Series, ...]]]) -> None:
    numbers: Numbers = {}
    packed = [PackedSeries.of_nodes(found, numbers) for found in queries]
    for found, one in zip(queries, packed, strict=True):
        assert one == found and len(one) == len(found)
        for node in "abcdefg":
            assert (node in one) == (node in found)
            assert one.get(node) == found.get(node)


def test_the_series_of_a_node_are_those_of_each_query_and_its_annotations() -> None:
    numbers: Numbers = {}
    first, second, noted = Series({}, 1.0, 5.0), Series({"device": "eth0"}, 2.0, None), Series({}, 3.0, None)
    values: dict[Query, PackedSeries] = {
        LOAD: PackedSeries.of_nodes({"a": [first]}, numbers),
        SPEED: PackedSeries.of_nodes({"b": [second, second], "a": [second]}, numbers),
    }
    assert NodeSeries(values, "a", {NOTE: (noted,)}) == {LOAD: (first,), SPEED: (second,), NOTE: (noted,)}
    assert NodeSeries(values, "b", {}) == {SPEED: (second, second)}
    other = NodeSeries(values, "c", {})
    assert not other and list(other) == [] and other.get(LOAD) is None
    with pytest.raises(KeyError):
        other[NOTE]


def test_a_query_that_has_lost_a_node_keeps_its_last_values_for_some_time() -> None:
    def collected(value: float, at_s: float, *nodes: str) -> PackedSeries:
        return PackedSeries.of_nodes({node: [Series({}, value, at_s)] for node in nodes}, {})

    known = KnownValues()
    known.update([LOAD], {LOAD: collected(1.0, 10.0, "a", "b")}, 11.0)
    known.update([LOAD], {LOAD: collected(2.0, 20.0, "b", "c")}, 21.0)
    expected = {"a": (Series({}, 1.0, 10.0),), "b": (Series({}, 2.0, 20.0),), "c": (Series({}, 2.0, 20.0),)}
    assert known.by_query == {LOAD: expected}
    known.update([LOAD], {}, 15.0 + KEPT_S)
    del expected["a"]
    assert known.by_query == {LOAD: expected}, "the query was not answered"


def test_a_series_needs_few_bytes() -> None:
    """As a list of objects in a dictionary of each node it needs more than 250 bytes."""
    nodes, queries, numbers = 200, 20, dict[str, int]()
    labels = [{"instance": str(number)} for number in range(nodes)]
    tracemalloc.start()
    try:
        numbers.update((f"worker-{number}", number) for number in range(nodes))
        layout = Layout(array("i", [0]), [])
        for number, one in enumerate(labels):
            layout.add(number, [one])
        _found = [PackedSeries(layout, numbers, array("d", range(nodes)), array("d", range(nodes))) for _query in range(queries)]
        assert tracemalloc.get_traced_memory()[0] < 25 * nodes * queries
    finally:
        tracemalloc.stop()
