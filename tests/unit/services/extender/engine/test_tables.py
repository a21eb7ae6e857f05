# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Integer scores keep the order of the exact scores, and show small differences over many pods."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.services.extender.engine.dithering import (
    OFFSETS,
    TABLES,
    all_rounded,
    rounded,
    step_of,
    table_of,
)
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import Table, answer_of, fragment, fragments_of
from ansible_collections.onprem.kube_scheduling.services.extender.engine.nodes import Nodes
from ansible_collections.onprem.kube_scheduling.services.extender.engine.scores import agent_scores
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import node

SCORES = st.floats(0, 10)


@settings(max_examples=100)
@given(SCORES, SCORES)
def test_the_order_of_two_nodes_is_never_inverted(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert all(rounded(low, table) <= rounded(high, table) for table in range(TABLES))
    assert int(low) <= rounded(low, TABLES - 1) <= 10


@settings(max_examples=100)
@given(SCORES)
def test_the_mean_over_all_tables_is_the_score(score: float) -> None:
    values = [rounded(score, table) for table in range(TABLES)]
    assert all(0 <= value <= 10 and abs(value - score) < 1 for value in values)
    assert abs(sum(values) / TABLES - score) <= 1 / (2 * TABLES) + 1e-9


def test_the_best_and_the_worst_score_are_the_same_in_every_table() -> None:
    assert {rounded(10.0, table) for table in range(TABLES)} == {10}
    assert {rounded(9.999999999999998, table) for table in range(TABLES)} == {10}
    assert {rounded(0.0, table) for table in range(TABLES)} == {0}


@settings(max_examples=50)
@given(st.lists(st.integers(0, 1600), min_size=1))
def test_the_integer_is_the_sum_of_score_and_offset_without_its_fraction(hundredths_of_steps: list[int]) -> None:
    found = [number / 100 / TABLES for number in hundredths_of_steps if number % 100 != 50]
    steps = bytes(map(step_of, found))
    for table, offset in enumerate(OFFSETS):
        assert list(all_rounded(steps, table)) == [min(10, int(score + offset)) for score in found]


def test_a_load_of_one_percent_is_visible() -> None:
    assert {rounded(9.9, table) for table in range(TABLES)} == {9, 10}


def test_the_table_of_a_pod_depends_only_on_its_uid_and_all_tables_are_used() -> None:
    assert table_of("a uid") == table_of("a uid")
    assert {table_of(f"uid-{number}") for number in range(500)} == set(range(TABLES))
    assert table_of("\ud800") in range(TABLES)


def test_an_answer_has_a_score_for_each_name_in_its_order() -> None:
    table = Table(["a", "b"], [fragments_of("a")[3], fragments_of("b")[10]], default=5)
    answer = json.loads(answer_of(table, ["b", "unknown", "a", "b"]))
    assert answer == [{"Host": "b", "Score": 10}, {"Host": "unknown", "Score": 5}, {"Host": "a", "Score": 3}, {"Host": "b", "Score": 10}]
    assert set(table.fragments) == {"a", "b"}
    assert json.loads(answer_of(table, ["unknown"])) == [{"Host": "unknown", "Score": 5}]
    assert json.loads(answer_of(table, ["a"])) == [{"Host": "a", "Score": 3}]
    assert json.loads(answer_of(table, [])) == []


def test_a_name_with_any_character_is_valid_json() -> None:
    for name in ('quo"te', "back\\slash", "zeile\n", "ä€", ""):
        assert json.loads(fragment(name, 7)) == {"Host": name, "Score": 7}
        assert json.loads(fragments_of(name)[7]) == {"Host": name, "Score": 7}


def test_the_next_view_has_the_fragments_of_known_nodes() -> None:
    before = Nodes([node("kept", 1.0), node("removed", 1.0)])
    after = Nodes([node("new", 1.0), node("kept", 2.0)], before)
    assert after.fragments[1] is before.fragments[0] and after.fragments[0] == fragments_of("new")


def test_equal_rejections_are_kept_once() -> None:
    judgements = [Judgement(0.0, rejection="".join(("too ", "busy"))) for _node in range(3)]
    found = agent_scores([node(name, None) for name in "abc"], judgements).rejections
    assert found == dict.fromkeys("abc", "too busy") and len({id(text) for text in found.values()}) == 1
