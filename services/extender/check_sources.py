# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The report of --check-sources: for each node the series with value and age, and the judgement of each agent."""

from __future__ import annotations

import itertools
import re
import time
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ...plugins.module_utils.model.messages import listed
from .agents.network.bandwidth import SPEED_METRIC, bit_text
from .engine.engine import Engine
from .engine.explanation import ProfileRows, explain_profile
from .interface import Annotation, Gauge, NodeView, Query, Rate, Series
from .sources.prometheus.promql import shown_promql, value_text
from .sources.view import ClusterView

SHOWN_NODES = 10
SHOWN_QUERIES = 2
"""Queries without a series that are shown for an agent."""

NETWORK_BYTES = re.compile(r"node_network_\w+_bytes_total")
"""The counters of node_exporter with the bytes of a device."""

SHOWN_REASONS = 10
"""Reasons why nodes are unknown that are shown for an agent. The age of a value is part of a reason."""

SHOWN_SERIES = 8
"""Series of one query on one node that are printed. A node can have a hundred devices."""


class SourceReport(t.NamedTuple):
    """The lines of the report. ``notes``: sentences about what is doubtful. ``problems``: sentences; without them the exit code is 0."""

    lines: list[str]
    problems: list[str]
    notes: list[str]


def report_on(engine: Engine, failed: Mapping[str, str], *, selector: str = "") -> SourceReport:
    """Return the report on the view of an engine. A source that failed and a node without a fresh value are problems.

    Series of no node are no problem. ``failed``: the error of each agent that has failed. ``selector``: that of Prometheus, for the queries
    that the report shows.
    """
    view = engine.current.view
    lines = [line for _name, node in sorted(view.nodes.items()) for line in _node_lines(node)]
    problems = [f"{source}: {error}" for source, error in view.errors.items()]
    notes: list[str] = []
    if not view.nodes:
        problems.append("the sources know no node")
    for state in engine.current.states.values():
        rows = explain_profile(state)
        lines += _profile_lines(rows)
        for number, agent in enumerate(state.agents):
            start = f"profile {rows.profile}, agent {agent.name}: "
            unknown = {node.node: node.agents[number].explanation for node in rows.nodes if node.agents[number].score is None}
            about = [f"it has failed with {failed[agent.name]}"] if agent.name in failed else list(_unknown(unknown, len(rows.nodes)))
            if len(unknown) == len(rows.nodes) and not view.errors:
                about += _without_series(state.profile.judging[number].agent.queries, view, selector)
            problems += [start + text for text in about]
            notes += [start + text for text in agent.notes()]
    if view.unmapped:
        lines.append(f"{view.unmapped_count} series belong to no node, or to several:")
        lines += [f"  {one.source}: {query_text(one.query)} {_labels(one.labels)}: {one.why}" for one in view.unmapped]
    return SourceReport(lines, problems, notes)


def query_text(query: Query) -> str:
    """Return a query for people."""
    name = type(query).__name__.lower()
    return f"{name} {query[0]}" if name != "expression" else shown_promql(query[0])


def _value_text(query: Query, value: float) -> str:
    """Return a value for people. A network rate of node_exporter has the unit of links and of the agents, which is bit/s."""
    is_rate = isinstance(query, Rate) and NETWORK_BYTES.fullmatch(query.metric)
    is_speed = isinstance(query, Gauge) and query.metric == SPEED_METRIC
    if is_speed and value <= 0:
        return "unknown"  # Linux reports -1 Mbit/s
    return bit_text(value) if is_rate or is_speed else f"{value:g}"


def _node_lines(node: NodeView) -> Iterator[str]:
    yield f"node {node.name}"
    if not node.series:
        yield "  no series"
    for query, series in node.series.items():
        for one in series[:SHOWN_SERIES]:
            yield f"  {query_text(query)} {_labels(one.labels)} = {_value_text(query, one.value)}, {_age(one)}"
        if len(series) > SHOWN_SERIES:
            yield f"  {query_text(query)}: {len(series) - SHOWN_SERIES} more series"


def _profile_lines(rows: ProfileRows) -> Iterator[str]:
    yield f"profile {rows.profile}"
    for node in rows.nodes:
        for agent in node.agents:
            score = "unknown" if agent.score is None else f"{agent.score:.2f}"
            age = "" if agent.age_s is None else f", {agent.age_s:.0f} s old"
            details = f" ({agent.explanation})" if agent.explanation else ""
            yield f"  {node.node}: {agent.agent} = {score}{details}{age}"


def _unknown(unknown: Mapping[str, str], nodes: int) -> Iterator[str]:
    """Return sentences about the unknown nodes of an agent. ``unknown``: the reason by node. ``nodes``: the number of all nodes."""
    if len(unknown) == nodes > 1:
        first, *_others = unknown.values()
        yield f"no fresh value for any of the {nodes} nodes{f': {first}' if first else ''}"
        return
    nodes_of: dict[str, list[str]] = {}
    for node, why in unknown.items():
        nodes_of.setdefault(why, []).append(node)
    for why, names in itertools.islice(nodes_of.items(), SHOWN_REASONS):
        yield f"no fresh value for {listed(names, SHOWN_NODES)}{f': {why}' if why else ''}"
    if len(nodes_of) > SHOWN_REASONS:
        others = sum(map(len, itertools.islice(nodes_of.values(), SHOWN_REASONS, None)))
        yield f"no fresh value for {others} more nodes, for other reasons"


def _without_series(queries: Sequence[Query], view: ClusterView, selector: str) -> Iterator[str]:
    """Return the reasons why an agent knows no node although its sources have answered."""
    found = {query for node in view.nodes.values() for query in node.series}
    missing = [query for query in queries if query not in found]
    annotations = [query.key for query in missing if isinstance(query, Annotation)]
    texts = list(dict.fromkeys(_short_text(query, selector) for query in missing if not isinstance(query, Annotation)))
    if any(series.query in missing for series in view.unmapped):
        yield "its series belong to no node, or to several: check node_label and node_rules of the source"
    elif texts:
        yield (
            f"there is no series for {listed(texts, SHOWN_QUERIES)}: check that Prometheus scrapes the node_exporters,"
            " and in FILE the selector of the source and the args of the agent, such as device"
        )
    if annotations:
        yield f"no node has the annotation {' or '.join(annotations)}"


def _short_text(query: Query, selector: str) -> str:
    """Return the PromQL of a query without the conditions of the agent, which can be very long."""
    if not isinstance(query, (Rate, Gauge)):
        return shown_promql(query[0])
    return value_text(query._replace(conditions=()), selector).removesuffix(" + 0")


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}"


def _age(series: Series) -> str:
    if series.measured_at_s is None:
        return "age unknown"
    return f"{max(0.0, time.monotonic() - series.measured_at_s):.0f} s old"
