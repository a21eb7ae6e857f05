# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs one agent over the lines of a recording."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....plugins.module_utils.model.codec import encode_json
from ..http.messages.preemption_wire import read_preemption_request
from ..http.messages.wire import read_nodes_request
from ..interface import Agent, Judgement, NodeView, PodView, Victims
from .lines import Line, NodeLine, OutcomeLine, RecordingError, RequestLine, ViewLine, decode_line, node_of, outcome_of

PREEMPT = "/scheduler/preempt"


class AgentAnswer(t.NamedTuple):
    """The answer of an agent to one request. ``pod``: namespace and name.

    ``judgements``: the judgement on each node of the request. ``violations``: for a request about preemption, the reason against each node,
    or an empty text.
    """

    at_s: float
    path: str
    pod: str
    judgements: Mapping[str, Judgement]
    violations: Mapping[str, str]


class Player:
    """An agent with the view that the lines so far have built."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._nodes: dict[str, NodeView] = {}
        self._prepared: t.Any = None
        self._is_prepared = False

    def play(self, line: Line) -> AgentAnswer | None:
        """Take over a line. Return the answer if it is a request. Raises RecordingError."""
        if isinstance(line, RequestLine):
            return self._answer(line)
        if isinstance(line, ViewLine):
            self._nodes, self._is_prepared = {}, False
        elif isinstance(line, NodeLine):
            self._nodes[line.name], self._is_prepared = node_of(line), False
        elif isinstance(line, OutcomeLine) and self._agent.learns:
            self._agent.observe(outcome_of(line))
        return None

    def _answer(self, line: RequestLine) -> AgentAnswer:
        try:
            if line.path == PREEMPT:
                return self._answer_preemption(line)
            request = read_nodes_request(encode_json(line.body))
            pod = request.pod.view
        except ValueError as error:
            raise RecordingError(f"the request at {line.at_s} s cannot be read: {error}") from error
        judgements = self._judgements(request.names, pod, line.at_s)
        return AgentAnswer(line.at_s, line.path, f"{pod.namespace}/{pod.name}", judgements, {})

    def _answer_preemption(self, line: RequestLine) -> AgentAnswer:
        request = read_preemption_request(encode_json(line.body))
        found = {name: self._violation(victims) for name, victims in request.candidates.items()}
        return AgentAnswer(line.at_s, line.path, f"{request.pod.namespace}/{request.pod.name}", {}, found)

    def _violation(self, victims: Victims) -> str:
        return self._agent.preempt_violation(victims) if self._agent.can_preempt else ""

    def _judgements(self, names: Sequence[str], pod: PodView, now_s: float) -> dict[str, Judgement]:
        nodes = list(self._nodes.values())
        if not self._is_prepared:
            self._prepared, self._is_prepared = self._agent.prepare(nodes, now_s), True
        if self._agent.per_demand:
            found = self._agent.score_all(self._prepared, nodes, pod, now_s)
        else:
            found = [self._agent.judge(self._prepared, node, None, now_s) for node in nodes]
        by_name = dict(zip(self._nodes, found, strict=True))
        unknown = Judgement(None, explanation="the node is not in the view")
        return {name: by_name.get(name, unknown) for name in names}


def read_lines(source: str, lines: Iterable[bytes]) -> Iterator[Line]:
    """Return the lines of a recording without empty ones. Raises RecordingError, which names the source and the number of the line."""
    for number, data in enumerate(lines, 1):
        if not data.strip():
            continue
        try:
            yield decode_line(data)
        except RecordingError as error:
            raise RecordingError(f"{source}, line {number}: {error}") from None
