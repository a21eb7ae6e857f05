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
from collections.abc import Iterator, Sequence
from pathlib import Path

from ....plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ....plugins.module_utils.kube.client.config.yaml_text import load_yaml
from ..agents.registry import AgentError, build_agent
from .lines import Line, RecordingError
from .player import AgentAnswer, Player, read_lines

EXIT_OK, EXIT_CONFIGURATION = 0, 2


def main(arguments: Sequence[str] | None = None, out: t.TextIO | None = None) -> int:
    """Run the program. Return 0, or 2 if the agent, its arguments or a file cannot be used."""
    given = _parser().parse_args(arguments)
    out = out or sys.stdout
    try:
        player, has_answers = Player(build_agent(given.agent, _args_of(given.args))), False
        for line in _lines(given.view, given.requests):
            answer = player.play(line)
            if answer is not None:
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
    for file in files:
        if file is not None:
            with file.open("rb") as lines:
                yield from read_lines(str(file), lines)


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
