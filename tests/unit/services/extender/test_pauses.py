# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work in the background pauses while requests come, and nothing is lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPods
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import SchedulerApi
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import BadRequestError
from ansible_collections.onprem.kube_scheduling.services.extender.interface import NodeView
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.pauses import (
    BATCH,
    LONGEST_S,
    REST,
    SLICE_S,
    RequestPause,
    free_with_pauses,
    with_pauses,
)

from tests.unit.services.extender.extender_objects import PROFILE, DemandAgent, ScoreAgent, node, pod_view, profile, quiet_log, view

NAMES = [f"n{number}" for number in range(100)]


class Times:
    """A clock that the test moves, and the pauses."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits_s: list[float] = []

    def work(self, pause: RequestPause, seconds: float = SLICE_S) -> None:
        self.now_s += seconds
        pause()


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def pause(times: Times) -> RequestPause:
    return RequestPause(times.waits_s.append, lambda: times.now_s)


def test_the_work_continues_immediately_without_requests(times: Times, pause: RequestPause) -> None:
    for _ in range(3):
        times.work(pause)
    assert times.waits_s == [0, 0, 0]


def test_a_short_part_of_the_work_has_no_pause(times: Times, pause: RequestPause) -> None:
    pause.note_request()
    for _ in range(3):
        times.work(pause, SLICE_S / 2)
    assert times.waits_s == [pytest.approx(REST * SLICE_S)]


@pytest.mark.parametrize(("worked_s", "rest_s"), [(0.001, REST * 0.001), (1.0, LONGEST_S)])
def test_a_rest_after_requests_is_a_multiple_of_the_work_before_it(
    times: Times, pause: RequestPause, worked_s: float, rest_s: float
) -> None:
    pause.note_request()
    pause.note_request()
    times.work(pause, worked_s)
    times.work(pause, worked_s)
    assert times.waits_s == [pytest.approx(rest_s), 0], "no further request has come"


def test_each_request_of_the_scheduler_is_noted(times: Times, pause: RequestPause) -> None:
    metrics = Metrics(quiet_log())
    api = SchedulerApi(Engine({}, metrics), metrics, RecentPods(), pauses=pause)
    with pytest.raises(BadRequestError):
        api.handler("/scheduler/filter")(b"{")
    times.work(pause)
    assert times.waits_s == [pytest.approx(REST * SLICE_S)]


def test_all_items_are_returned_with_pauses_between_them() -> None:
    pauses: list[int] = []
    found = []
    for item in with_pauses(range(10), lambda: pauses.append(len(found)), 4):
        found.append(item)
    assert found == list(range(10)) and pauses == [4, 8, 10]


def test_objects_are_freed_in_parts() -> None:
    class Freed:
        def __del__(self) -> None:
            freed.append(None)

    freed: list[None] = []
    seen: list[int] = []
    objects = [Freed() for _ in range(2 * BATCH + 1)]
    free_with_pauses(objects, lambda: seen.append(len(freed)))
    assert objects == [] and seen == [BATCH, 2 * BATCH, 2 * BATCH + 1]


def engine_with(pause: Callable[[], None], agent: ScoreAgent) -> Engine:
    return Engine({PROFILE: profile(agent, ScoreAgent())}, Metrics(quiet_log()), pause=pause)


def score_of(engine: Engine, name: str) -> float:
    state = engine.state_for(PROFILE)
    assert state is not None
    return state.scores(pod_view).totals()[state.nodes.numbers[name]]


@pytest.mark.parametrize("agent", [ScoreAgent, DemandAgent])
@pytest.mark.parametrize("reload", [False, True])
def test_a_node_that_is_replaced_during_a_calculation_is_in_the_scores_before_and_after(agent: type[ScoreAgent], reload: bool) -> None:
    seen: list[float] = []
    started: list[None] = []

    def bind() -> None:
        if started:
            started.clear()
            engine.on_node(node("n7", 2.0))
            seen.append(score_of(engine, "n7"))

    engine = engine_with(bind, agent())
    engine.on_view(view(dict.fromkeys(NAMES, 8.0)))
    score_of(engine, "n7")
    started.append(None)
    if reload:
        engine.reconfigure({PROFILE: profile(agent(), ScoreAgent())})
    else:
        engine.on_view(view(dict.fromkeys(NAMES, 6.0), version=2))
    assert seen == [2.0] and score_of(engine, "n7") == 2.0
    assert score_of(engine, "n8") == (8.0 if reload else 6.0)


def test_there_are_pauses_while_an_agent_visits_all_nodes_and_none_later() -> None:
    kept: list[Sequence[NodeView]] = []

    class Visitor(ScoreAgent):
        def prepare(self, nodes: Sequence[NodeView], now_s: float) -> int:
            kept.append(nodes)
            before = len(pauses)
            assert [one.name for one in nodes] == [one.name for one in nodes[:]]
            return len(pauses) - before

    pauses: list[None] = []
    engine = engine_with(lambda: pauses.append(None), Visitor())
    engine.on_view(view(dict.fromkeys(NAMES, 8.0)))
    state = engine.state_for(PROFILE)
    assert state is not None and state.agents[0].prepared == len(NAMES)
    count = len(pauses)
    assert len(list(kept[-1])) == len(NAMES) and len(pauses) == count
