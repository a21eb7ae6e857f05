# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The interface of agents. It is public: agents of third parties import this file and nothing else of the extender.

An agent judges nodes. It names the series that it needs (``queries``), the sources read them in the background, and the engine calls the
agent with the newest values. An agent never reads anything itself, and keeps no state between calls.

All times are seconds of ``time.monotonic`` of this process, so that no other machine's clock can make a value look fresh.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BEST_SCORE = 10.0
"""The score of the best node. The worst node has 0."""


class LabelMatch(t.NamedTuple):
    """A condition on a label of a series: the whole value matches the regular expression, or does not match it if ``negative``.

    The pattern is valid in RE2 and in Python. An absent label has an empty value.
    """

    label: str
    pattern: str
    negative: bool = False


class Rate(t.NamedTuple):
    """The increase per second of a counter of node_exporter, over ``window_s`` seconds, of the series that meet all ``conditions``."""

    metric: str
    window_s: int
    conditions: tuple[LabelMatch, ...] = ()


class Gauge(t.NamedTuple):
    """The newest value of a gauge of node_exporter, of the series that meet all ``conditions``."""

    metric: str
    conditions: tuple[LabelMatch, ...] = ()


class Expression(t.NamedTuple):
    """A PromQL expression that returns a vector with a label for the node. Only Prometheus can answer it.

    ``timestamp_of``: a PromQL selector of the raw series behind the expression. The age of a result is the age of the newest of these
    series of the same node. If it is empty, the age is unknown.
    """

    promql: str
    timestamp_of: str = ""


class Annotation(t.NamedTuple):
    """An annotation of the node: ``value`` (its age is unknown) or ``value,time``. A time in the future makes the value unknown."""

    key: str


Query = Rate | Gauge | Expression | Annotation


class Series(t.NamedTuple):
    """One value with its labels. ``measured_at_s`` is None if nothing tells when it was measured."""

    labels: Mapping[str, str]
    value: float
    measured_at_s: float | None


@dataclass(frozen=True, slots=True)
class Demand:
    """The requests of a pod: ``cpu`` in millicores, bandwidth in bits per second, the others in bytes or numbers of devices.

    Requests follow kube-scheduler's rule (init containers, sidecars, overhead, resources of the whole pod). A bandwidth is None if the pod
    does not declare it.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    ingress_bits_per_s: int | None = None
    egress_bits_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that waits for a node, or one on a node. ``bound_at_s`` is None for a pod that waits.

    ``ended_at_s``: the pod has ended or was deleted at this time. Pods are known for ten minutes after their end, 500 of each node at most.
    ``owner``: the name of the controller, or an empty text. For a ReplicaSet it is the name of the Deployment, and for a Job that of the
    CronJob, if there is one.
    """

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    labels: Mapping[str, str]
    demand: Demand
    bound_at_s: float | None = None
    ended_at_s: float | None = None
    owner: str = ""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the agents see it.

    ``series`` has the values of each query; a missing query means that no value is known. ``allocatable`` has the units of ``Demand``.
    ``pods`` are the pods on the node, with those that ended recently. Without ``sources.kubernetes`` both are empty.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    series: Mapping[Query, Sequence[Series]] = field(default_factory=dict)
    pods: Sequence[PodView] = ()


class Judgement(t.NamedTuple):
    """The judgement of an agent on one node.

    ``score``: 0 (worst) to 10 (best); None if the agent has no fresh value for the node. ``value``: the measured value behind the score,
    for people. ``explanation``: a short text such as ``62% of 10 Gbit/s on eno1``. ``measured_at_s``: the time of the oldest value that
    was used. ``rejection``: the reason why the pod must not run on the node; it counts only where ``filter: true``.
    """

    score: float | None
    value: float | None = None
    explanation: str = ""
    measured_at_s: float | None = None
    rejection: str = ""


class Scores(t.NamedTuple):
    """The judgements on several nodes without the texts and values for people, by the position of the node.

    ``scores``: as in ``Judgement``; NaN if the agent has no fresh value for the node. ``rejections`` has only the rejected nodes.
    ``oldest_s``: the time of the oldest value that was used for a score, or None if no time is known.
    """

    scores: Sequence[float]
    rejections: Mapping[int, str] = {}
    oldest_s: float | None = None


class Victims(t.NamedTuple):
    """The pods on a node that the scheduler's preemption would delete, and how many of them are protected by an exhausted budget."""

    pod_uids: Sequence[str]
    budget_violations: int


class Agent:
    """The base class of agents. A subclass sets ``name`` and overrides what it needs.

    ``args``: a frozen msgspec.Struct that checks the agent's ``args`` of FILE; its defaults are the agent's defaults. The constructor
    raises ValueError with a sentence if a combination of arguments cannot be used.
    ``per_demand``: the score depends on the pod that is scheduled. The engine then calls ``scores`` or ``score_all`` for each new demand.
    """

    name: t.ClassVar[str] = ""
    args_type: t.ClassVar[type]
    per_demand: t.ClassVar[bool] = False
    compares_nodes: t.ClassVar[bool] = False
    """The score of a node depends on the pods of the other nodes too (see ``pigeon``). Only for an agent that is ``per_demand``.

    After a change of one node, the engine judges all nodes before the next answer.
    """

    can_score: t.ClassVar[bool] = True
    """If false, the agent takes no part in scores and its weight does not count (see ``budgets``). It can filter nevertheless."""

    can_filter: t.ClassVar[bool] = False
    can_preempt: t.ClassVar[bool] = False
    value_unit: str = ""
    """The unit of ``Judgement.value``, such as bit/s. The pages show it after the value. It is empty for a number without a unit."""

    def __init__(self, args: t.Any) -> None:
        self.args = args

    @property
    def queries(self) -> Sequence[Query]:
        """Return the queries that the agent needs. Equal queries of several agents are asked once."""
        return ()

    @property
    def ineffective_filter(self) -> str:
        """Return the reason why ``filter: true`` rejects no node with these arguments, or an empty text: a limit that is not set."""
        return ""

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> t.Any:
        """Return what all nodes of one refresh have in common, such as the largest value. It is passed to the other methods.

        While it visits the nodes, it is stopped for requests. So it must not hold a lock that ``judge`` or ``demand_key`` needs.
        """
        return None

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the judgement on one node. ``pod`` is None if the agent is not ``per_demand``.

        An agent that overrides ``score_all`` without a call of this method does not need it.
        """
        raise NotImplementedError(f"the class {type(self).__qualname__} has no method judge")

    def demand_key(self, pod: PodView) -> t.Hashable:
        """Return what the score depends on. Pods with the same key get the same scores until the data changes."""
        return None

    def score_all(self, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the judgements on these nodes, in their order. An agent that is ``per_demand`` overrides it if ``judge`` is too slow.

        The nodes are those of the view, or those that have changed since the last call, unless the agent ``compares_nodes``.
        """
        return [self.judge(prepared, node, pod, now_s) for node in nodes]

    def scores(self, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores | None:
        """Return the same as ``score_all`` without what only people need, or None: then the engine calls ``score_all``.

        An agent that is ``per_demand`` overrides it if the texts take a large part of the time.
        """
        return None

    def notes(self, prepared: t.Any, nodes: Sequence[NodeView], now_s: float) -> Sequence[str]:
        """Return sentences about what is doubtful in the judgements, such as an assumed value. ``--check-sources`` prints them.

        Each names its nodes. A node without a fresh value needs none.
        """
        return ()

    def preempt_violation(self, victims: Victims) -> str:
        """Return the reason why these victims must not be deleted, or an empty text."""
        return ""
