# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""All agents keep the rules of the interface, for any values that a source can give."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterator

import promql_parser
import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import BUILT_IN
from ansible_collections.onprem.kube_scheduling.services.extender.agents.safe import model
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Expression, Gauge, NodeView, Rate, Series
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import NOW_S, agent, judgements, node, pod

ARGS: dict[str, list[dict[str, t.Any]]] = {
    "metric": [{"query": "up", "best": 0, "worst": 1}],
    "network_traffic": [{}, {"normalise": "relative", "direction": "both"}],
    "pigeon": [{"num_resources": 5}, {"policy_objective": "LOAD_BALANCE"}, {"policy_objective": "CONSOLIDATE"}],
    "safe_overload": [{}, {"source": "annotations", "percentile": 0}],
    "safe_balance": [{}, {"source": "annotations"}],
}
AGENTS = [agent(name, **args) for name in BUILT_IN for args in ARGS.get(name, [{}])]
IDS = [f"{of.name}-{number}" for number, of in enumerate(AGENTS)]

VALUES = st.floats() | st.sampled_from([0.0, -1.0, -125000.0, 1e-300, 1e300, 5.0])
AMOUNTS = st.sampled_from([0, 1, 1000, 2**62])
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "ephemeral-storage"]), AMOUNTS)
BANDWIDTHS = st.none() | AMOUNTS
AGES = st.none() | st.floats(-100, 1000)
PODS = st.builds(
    pod,
    st.sampled_from(["a", "b"]),
    requests=RESOURCES,
    ingress=BANDWIDTHS,
    egress=BANDWIDTHS,
    bound_s_ago=AGES,
    ended_s_ago=AGES,
)


@st.composite
def views(draw: st.DrawFn, of: Agent) -> list[NodeView]:
    """Up to four nodes with any values for the queries of an agent."""
    one = st.builds(
        lambda value, age_s, device: Series({"device": device}, value, None if age_s is None else NOW_S - age_s),
        VALUES,
        AGES,
        st.sampled_from(["eth0", "eth0.5", "bond0", "lo", ""]),
    )
    return [
        node(
            f"n{number}",
            {query: draw(st.lists(one, max_size=2)) for query in of.queries},
            pods=draw(st.lists(PODS, max_size=2)),
            allocatable=draw(RESOURCES),
        )
        for number in range(draw(st.integers(0, 4)))
    ]


@pytest.fixture(autouse=True, scope="module")
def arrays_for_few_nodes() -> Iterator[None]:
    """Compute few nodes as many nodes are. ``judge`` has the result of the other way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "FEW", 0)
        yield


@pytest.mark.parametrize("of", AGENTS, ids=IDS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_any_view_gives_scores_in_range_and_no_error(of: Agent, data: st.DataObject) -> None:
    nodes = data.draw(views(of))
    waiting = data.draw(PODS)
    hash(of.demand_key(waiting))
    for judgement in judgements(of, nodes, waiting).values():
        assert judgement.score is None or 0.0 <= judgement.score <= 10.0, judgement
        assert judgement.explanation
    prepared = of.prepare(nodes, NOW_S)
    for one in () if of.compares_nodes else nodes:
        alone = of.judge(prepared, one, waiting, NOW_S)
        assert alone.score is None or not math.isnan(alone.score)
        of.judge(prepared, one, None, NOW_S)


@pytest.mark.parametrize("of", [of for of in AGENTS if type(of).scores is not Agent.scores], ids=lambda of: str(of.name))
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_scores_without_texts_are_those_of_the_judgements(of: Agent, data: st.DataObject) -> None:
    nodes, waiting = data.draw(views(of)), data.draw(PODS)
    assume(nodes)
    prepared = of.prepare(nodes, NOW_S)
    found, expected = of.scores(prepared, nodes, waiting, NOW_S), of.score_all(prepared, nodes, waiting, NOW_S)
    assert found is not None
    for score, judgement in zip(found.scores, expected, strict=True):
        assert score == pytest.approx(math.nan if judgement.score is None else judgement.score, abs=1e-6, nan_ok=True)
    assert dict(found.rejections) == {number: one.rejection for number, one in enumerate(expected) if one.rejection}
    times = [one.measured_at_s for one in expected if one.score is not None and one.measured_at_s is not None]
    assert found.oldest_s == min(times, default=None)


@pytest.mark.parametrize("of", AGENTS, ids=IDS)
def test_the_queries_of_an_agent_stay_the_same_and_are_valid(of: Agent) -> None:
    assert list(of.queries) == list(of.queries) and len(set(of.queries)) == len(of.queries)
    for query in of.queries:
        if isinstance(query, (Rate, Gauge, Expression)):
            promql_parser.parse(value_text(query))
            promql_parser.parse(time_text(query, "instance") or "0")
