# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed series are the same as unpacked ones, and need little memory."""

from __future__ import annotations

import tracemalloc
from array import array

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Annotation, Gauge, Query, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.known_values import KEPT_S, KnownValues
from ansible_collections.onprem.kube_scheduling.services.extender.sources.packed_series import Layouts, NodeSeries, Numbers, PackedSeries
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.label_sets import LabelSets
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.row_selection import RowCollector
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


@given(st.lists(st.lists(BY_NODE, max_size=4), max_size=3))
def test_packed_series_are_those_that_were_packed(refreshes: list[list[dict[str, tuple[Series, ...]]]]) -> None:
    layouts, packed = Layouts(), list[PackedSeries]()
    for queries in refreshes:
        numbers: Numbers = {}
        packed += [PackedSeries.of_nodes(found.items(), numbers, layouts) for found in queries]
        layouts.end_refresh()
    for found, one in zip((found for queries in refreshes for found in queries), packed, strict=True):
        assert one == found and len(one) == len(found)
        for node in "abcdefg":
            assert (node in one) == (node in found)
            assert one.get(node) == found.get(node)


def test_the_series_of_a_node_are_those_of_each_query_and_its_annotations() -> None:
    numbers: Numbers = {}
    first, second, noted = Series({}, 1.0, 5.0), Series({"device": "eth0"}, 2.0, None), Series({}, 3.0, None)
    values: dict[Query, PackedSeries] = {
        LOAD: PackedSeries.of_nodes([("a", [first])], numbers),
        SPEED: PackedSeries.of_nodes([("b", [second, second]), ("a", [second])], numbers),
    }
    assert NodeSeries(values, "a", {NOTE: (noted,)}) == {LOAD: (first,), SPEED: (second,), NOTE: (noted,)}
    assert NodeSeries(values, "b", {}) == {SPEED: (second, second)}
    other = NodeSeries(values, "c", {})
    assert not other and list(other) == [] and other.get(LOAD) is None
    with pytest.raises(KeyError):
        other[NOTE]


def test_an_equal_layout_is_kept_once_for_all_queries_and_until_a_refresh_has_no_use_for_it() -> None:
    layouts, labels = Layouts(), {"device": "eth0"}

    def packed(value: float, *nodes: str) -> PackedSeries:
        return PackedSeries.of_nodes([(node, [Series(labels, value, None)]) for node in nodes], {"a": 0, "b": 1}, layouts)

    first, second, other = packed(1.0, "a", "b"), packed(2.0, "a", "b"), packed(3.0, "b")
    assert first._labels is second._labels and first._starts is second._starts
    assert first["a"][0].value == 1.0 and second["a"][0].value == 2.0
    assert other._labels is not first._labels and "a" not in other
    layouts.end_refresh()
    assert packed(4.0, "a", "b")._ends is first._ends
    layouts.end_refresh()
    assert packed(5.0, "b")._ends is not other._ends


def test_a_query_that_has_lost_a_node_keeps_its_last_values_for_some_time() -> None:
    def collected(value: float, at_s: float, *nodes: str) -> PackedSeries:
        return PackedSeries.of_nodes([(node, [Series({}, value, at_s)]) for node in nodes], {})

    known = KnownValues()
    known.update({LOAD: collected(1.0, 10.0, "a", "b")}, 11.0)
    known.update({LOAD: collected(2.0, 20.0, "b", "c")}, 21.0)
    expected = {"a": (Series({}, 1.0, 10.0),), "b": (Series({}, 2.0, 20.0),), "c": (Series({}, 2.0, 20.0),)}
    assert known.by_query() == {LOAD: expected}
    known.update({}, 15.0 + KEPT_S)
    del expected["a"]
    assert known.by_query() == {LOAD: expected}, "the query was not answered"


def test_a_series_needs_few_bytes() -> None:
    """As a list of objects in a dictionary of each node it needs more than 250 bytes."""
    nodes, queries, sets, numbers, layouts = 200, 20, LabelSets("instance"), dict[str, int](), Layouts()
    labels = [sets.get(b'{"instance":"%d"}' % number) for number in range(nodes)]
    tracemalloc.start()
    try:
        found = []
        for _query in range(queries):
            values, times = array("d", range(nodes)), array("d", range(nodes))
            collector = RowCollector(LOAD, "prometheus", nodes, times)
            for number in range(nodes):
                collector.add(f"worker-{number}", labels[number], number, number)
            layout = collector.selection(numbers, layouts).layout
            found.append(PackedSeries(layout, numbers, values, times))
        del collector
        assert tracemalloc.get_traced_memory()[0] < 50 * nodes * queries
    finally:
        tracemalloc.stop()
