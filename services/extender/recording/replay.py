# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs one agent over a recording and prints its scores, to develop the agent without a cluster.

The extender writes a recording with ``--record FILE``. See docs/add-an-agent.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ....plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ....plugins.module_utils.kube.client.config.yaml_text import load_yaml
from ....plugins.module_utils.model.codec import encode_json
from ..agents.original.learning import LearningAgent
from ..agents.registry import AgentError, build_agent
from ..http.wire import BadRequestError, read_nodes_request, read_preemption_request
from ..interface import Agent, Judgement, NodeView
from .lines import Line, NodeLine, RecordingError, RequestLine, ViewLine, decode_line, node_of

EXIT_OK, EXIT_CONFIGURATION = 0, 2
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


def answers(agent: Agent, lines: Iterable[Line]) -> Iterator[AgentAnswer]:
    """Return the answer of the agent to each request, from the view that the lines so far have built. Raises RecordingError."""
    nodes: dict[str, NodeView] = {}
    for line in lines:
        if isinstance(line, ViewLine):
            nodes = {}
        elif isinstance(line, NodeLine):
            nodes[line.name] = node_of(line)
        elif isinstance(line, RequestLine):
            try:
                yield _preemption(agent, line) if line.path == PREEMPT else _judgements(agent, nodes, line)
            except BadRequestError as error:
                raise RecordingError(f"the request at {line.at_s} s cannot be read: {error}") from error
        elif isinstance(agent, LearningAgent):
            agent.observe(line.pod, line.node, line.succeeded, line.at_s)


def _preemption(agent: Agent, line: RequestLine) -> AgentAnswer:
    request = read_preemption_request(encode_json(line.body))
    found = {name: agent.preempt_violation(victims) if agent.can_preempt else "" for name, victims in request.candidates.items()}
    return AgentAnswer(line.at_s, line.path, f"{request.pod.namespace}/{request.pod.name}", {}, found)


def _judgements(agent: Agent, by_name: Mapping[str, NodeView], line: RequestLine) -> AgentAnswer:
    request, nodes = read_nodes_request(encode_json(line.body)), list(by_name.values())
    try:
        pod = request.pod.view
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    prepared = agent.prepare(nodes, line.at_s)
    if agent.per_demand:
        found = agent.score_all(prepared, nodes, pod, line.at_s)
    else:
        found = [agent.judge(prepared, node, None, line.at_s) for node in nodes]
    known = dict(zip(by_name, found, strict=True))
    unknown = Judgement(None, explanation="the node is not in the view")
    judgements = {name: known.get(name, unknown) for name in request.names}
    return AgentAnswer(line.at_s, line.path, f"{pod.namespace}/{pod.name}", judgements, {})


def main(arguments: Sequence[str] | None = None, out: t.TextIO | None = None) -> int:
    """Run the program. Return 0, or 2 if the agent, its arguments or a file cannot be used."""
    given = _parser().parse_args(arguments)
    out = out or sys.stdout
    try:
        agent, has_answers = build_agent(given.agent, _args_of(given.args)), False
        for answer in answers(agent, _lines(given.view, given.requests)):
            has_answers = True
            out.write(_json_of(answer) if given.json else _text_of(answer))
        if not has_answers:
            raise RecordingError(f"{given.requests} has no request of a scheduler")
    except (AgentError, RecordingError, OSError) as error:
        text = f"{error.filename} cannot be read: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        print(f"replay: {text}", file=sys.stderr)
        return EXIT_CONFIGURATION
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ansible_collections.onprem.kube_scheduling.services.extender.recording.replay",
        description="Run one agent over the requests of a recording, and print the score and the explanation for each node.",
        allow_abbrev=False,
    )
    parser.add_argument("--agent", required=True, metavar="NAME", help="the name of the agent")
    parser.add_argument("--args", default="{}", metavar="ARGS", help="the agent's args as YAML or JSON, such as '{window: 1m}'")
    parser.add_argument("--requests", required=True, type=Path, metavar="FILE", help="the recording")
    parser.add_argument("--view", type=Path, metavar="FILE", help="a recording with a view that is read first")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each request")
    return parser


def _args_of(text: str) -> dict[str, t.Any]:
    try:
        args = load_yaml(text.encode())
    except ConnectionSettingsError as error:
        raise AgentError(f"--args cannot be read: {error}") from error
    if not isinstance(args, dict):
        raise AgentError(f"--args is {text!r}: arguments by their names are expected, such as {{window: 1m}}")
    return args


def _lines(*files: Path | None) -> Iterator[Line]:
    """Return the lines of recordings without empty ones. Raises RecordingError, which names the file and the number of the line."""
    for file in filter(None, files):
        with file.open("rb") as lines:
            for number, data in enumerate(lines, 1):
                try:
                    if data.strip():
                        yield decode_line(data)
                except RecordingError as error:
                    raise RecordingError(f"{file}, line {number}: {error}") from None


def _text_of(answer: AgentAnswer) -> str:
    lines = [f"{answer.path} for Pod {answer.pod} at {answer.at_s:.1f} s"]
    width = max(map(len, (*answer.judgements, *answer.violations)), default=0)
    for name, judgement in answer.judgements.items():
        score = "unknown" if judgement.score is None else f"{judgement.score:7.3f}"
        rejection = f"; rejected by a filter: {judgement.rejection}" if judgement.rejection else ""
        lines.append(f"  {name:{width}}  {score}  {judgement.explanation}{rejection}")
    lines += [f"  {name:{width}}  {reason or 'allowed'}" for name, reason in answer.violations.items()]
    return "\n".join(lines) + "\n"


def _json_of(answer: AgentAnswer) -> str:
    judgements = {name: judgement._asdict() for name, judgement in answer.judgements.items()}
    return json.dumps({**answer._asdict(), "judgements": judgements}) + "\n"


if __name__ == "__main__":
    sys.exit(main())
