# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small real agents, views of a cluster and requests, for the tests of the extender."""

from __future__ import annotations

import io
import json
import time
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Struct
from ansible_collections.onprem.kube_scheduling.services.common.log import Log, set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import ConfiguredAgent, Profile
from ansible_collections.onprem.kube_scheduling.services.extender.interface import (
    Agent,
    Demand,
    Gauge,
    Judgement,
    NodeView,
    PodView,
    Series,
    Victims,
)
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.pauses import no_pause
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView

PROFILE = "quiet"
GAUGE = Gauge("score")
LIMIT = 2.0


class ScoreArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


class ScoreAgent(Agent):
    """Its score is the value of the gauge. It rejects nodes with a score below LIMIT."""

    name = "score"
    args_type = ScoreArgs
    can_filter = True

    def __init__(self, args: t.Any = None) -> None:
        super().__init__(args)
        self.calls = 0

    @property
    def queries(self) -> Sequence[Gauge]:
        return (GAUGE,)

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        self.calls += 1
        series = node.series.get(GAUGE, ())
        if not series:
            return Judgement(None)
        value = series[0].value
        rejection = f"score {value:g} is below {LIMIT:g}" if value < LIMIT else ""
        return Judgement(value, value, f"gauge {value:g}", series[0].measured_at_s, rejection)


class DemandAgent(ScoreAgent):
    """Its score is the value of the gauge minus one for each core that the pod requests."""

    name = "demand"
    per_demand = True

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        found = super().judge(prepared, node, pod, now_s)
        assert pod is not None
        cores = pod.demand.requests.get("cpu", 0) / 1000
        return found if found.score is None else found._replace(score=max(0.0, found.score - cores))

    def demand_key(self, pod: PodView) -> t.Hashable:
        return pod.demand.requests.get("cpu", 0)


class BrokenAgent(ScoreAgent):
    """It fails on every node."""

    name = "broken"

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        raise RuntimeError("out of order")


class KeepBudgets(Agent):
    """It refuses victims that violate a budget."""

    name = "keep_budgets"
    args_type = ScoreArgs
    can_score = False
    can_preempt = True

    def __init__(self, args: t.Any = None) -> None:
        super().__init__(args)

    def preempt_violation(self, victims: Victims) -> str:
        return "a budget is violated" if victims.budget_violations else ""


def node(name: str, value: float | None, **changes: t.Any) -> NodeView:
    """A node whose gauge has the value; None for no value."""
    series = {} if value is None else {GAUGE: (Series({"instance": name}, value, time.monotonic()),)}
    return NodeView(name, series=series, **changes)


def view(values: Mapping[str, float | None], version: int = 1, **changes: t.Any) -> ClusterView:
    return ClusterView(version, {name: node(name, value) for name, value in values.items()}, refreshed_at_s=time.monotonic(), **changes)


def profile(*agents: Agent | ConfiguredAgent, name: str = PROFILE, unknown: str = "median") -> Profile:
    configured = (one if isinstance(one, ConfiguredAgent) else ConfiguredAgent(one) for one in agents)
    return Profile(name, tuple(configured), unknown)


def quiet_log() -> Log:
    return set_up_log("extender-test", form="json", level="error", stream=io.StringIO())


def engine(*profiles: Profile, metrics: Metrics | None = None) -> Engine:
    return Engine({one.name: one for one in profiles}, metrics or Metrics(quiet_log()), pause=no_pause)


def pod_view(uid: str = "u1", cpu: int = 0) -> PodView:
    return PodView("app", "web", uid, PROFILE, {}, Demand({"cpu": cpu} if cpu else {}))


def pod(uid: str = "u1", *, scheduler: str = PROFILE, name: str = "web", cpu: str = "") -> dict[str, t.Any]:
    """A pod as the scheduler sends it."""
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {
        "metadata": {"name": name, "namespace": "app", "uid": uid, "labels": {"app": "web"}, "managedFields": None},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "nginx", "resources": resources}]},
        "status": {"phase": "Pending"},
    }


def names_body(names: Sequence[str], **changes: t.Any) -> bytes:
    """The body of filter and prioritize with nodeCacheCapable."""
    return json.dumps({"Pod": pod(**changes), "Nodes": None, "NodeNames": list(names)}).encode()


def body(**parts: t.Any) -> bytes:
    """The body of a request with these parts."""
    return json.dumps(parts).encode()


def scores_in(answer: bytes) -> dict[str, int]:
    """The scores of a prioritize answer."""
    return {entry["Host"]: entry["Score"] for entry in json.loads(answer)}
