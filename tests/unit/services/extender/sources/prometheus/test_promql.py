# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Every generated query is valid PromQL, and its strings are those of the conditions."""

from __future__ import annotations

import typing as t

import promql_parser
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Expression, Gauge, LabelMatch, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import (
    part_text,
    shown_promql,
    time_text,
    uname_text,
    value_text,
)
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import MATCHERS
from hypothesis import given, settings
from hypothesis import strategies as st

COUNTER = "node_network_receive_bytes_total"
DEVICES = (LabelMatch("device", "eth.*|bond.*"), LabelMatch("device", r'lo|veth.*|x"\d+', negative=True))


def test_a_long_string_of_a_query_is_cut_visibly() -> None:
    text = value_text(Rate(COUNTER, 60, (LabelMatch("device", "lo|" * 30, negative=True), LabelMatch("device", "eth.*"))))
    assert shown_promql(text) == f'rate({COUNTER}{{device!~"{"lo|" * 13}…" (52 characters are not shown),device=~"eth.*"}}[60s])'
    assert shown_promql("up") == "up"


@pytest.mark.parametrize(
    ("query", "value", "times"),
    [
        (Rate(COUNTER, 300), f"rate({COUNTER}[300s])", f"timestamp({COUNTER})"),
        (Gauge("node_load1"), "node_load1 + 0", "timestamp(node_load1)"),
        (
            Rate(COUNTER, 60, DEVICES),
            COUNTER.join(["rate(", r'{device=~"eth.*|bond.*",device!~"lo|veth.*|x\"\\d+"}[60s])']),
            COUNTER.join(["timestamp(", r'{device=~"eth.*|bond.*",device!~"lo|veth.*|x\"\\d+"})']),
        ),
        (Expression("sum by (instance) (up)", "up"), "sum by (instance) (up)", "max by (instance) (timestamp(up))"),
        (Expression("up"), "up", ""),
    ],
)
def test_text_of_a_query(query: t.Any, value: str, times: str) -> None:
    assert (value_text(query), time_text(query, "instance")) == (value, times)
    for text in filter(None, (value, times)):
        promql_parser.parse(text)


def test_times_of_an_expression_keep_the_label_of_the_node_and_the_instance() -> None:
    text = time_text(Expression("up", 'up{job="node"}'), "node")
    assert text == 'max by (node, instance) (timestamp(up{job="node"}))'
    promql_parser.parse(text)


@given(name=st.text(max_size=5))
def test_a_query_for_some_targets_is_promql(name: str) -> None:
    promql_parser.parse(part_text("rate(up[60s])", ("node", "instance"), [("a", "10.0.0.1:9100"), (name, "")]))


def test_the_query_for_host_names_is_a_metric() -> None:
    assert (uname_text(), uname_text('job="node"')) == ("node_uname_info", 'node_uname_info{job="node"}')
    promql_parser.parse(uname_text('job="node"'))


def test_a_selector_is_added_to_the_metrics_and_not_to_expressions() -> None:
    selector = r'job=~"node|\\d\"", namespace != "x"'
    assert MATCHERS.fullmatch(selector)
    for query in (Rate(COUNTER, 60, DEVICES), Rate(COUNTER, 60), Gauge("node_load1")):
        for text in (value_text(query, selector), time_text(query, "instance", selector)):
            assert selector in text
            promql_parser.parse(text)
    assert value_text(Expression("up", "up"), selector) == "up"
    assert time_text(Expression("up", "up"), "instance", selector) == "max by (instance) (timestamp(up))"


@pytest.mark.parametrize(
    "text", ["node", '{job="node"}', 'job="node"} or up{x="', 'job="a" job="b"', 'job="a",', "job='a'", 'job="a\\"', ""]
)
def test_a_text_that_is_no_list_of_matchers_is_no_selector(text: str) -> None:
    assert not MATCHERS.fullmatch(text)


@settings(max_examples=50, deadline=None)
@given(pattern=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), negative=st.booleans())
def test_any_condition_is_one_string_of_promql(pattern: str, negative: bool) -> None:
    text = value_text(Gauge("m", (LabelMatch("device", pattern, negative),)))
    try:
        parsed: t.Any = promql_parser.parse(text)
    except ValueError as error:
        assert "regex" in str(error).lower(), (text, error)  # the pattern is no regular expression
        return
    (matcher,) = parsed.lhs.matchers.matchers
    assert matcher.value == pattern
