# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab: python -m lab up|down|status|kubeconfig|logs|binaries|query|kind|hosts.

Errors are printed without a traceback; an interrupted `up` ends what it has started.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from lab import binaries, scenario
from lab.cluster import Cluster, up
from lab.errors import LabError
from lab.hosts import command_line as hosts
from lab.kind import command_line as kind
from lab.kwok_config import VARIANTS
from lab.layout import DEFAULT_NAME, default_folder
from lab.progress import end_on_signals
from lab.prometheus_server import query_with

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    end_on_signals()
    try:
        code: int = options.run(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description="Simulated Kubernetes clusters with a real control plane.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    bring_up = _command(commands, "up", _up, "start a cluster, or repair the one that is there")
    bring_up.add_argument(
        "--scenario",
        default=None,
        metavar="FILE|NAME",
        help=f"nodes to create; shipped: {', '.join(scenario.shipped())}",
    )
    bring_up.add_argument(
        "--variant", default="standard", choices=sorted(VARIANTS), help="treatment of API load, and what the scheduler may do"
    )
    bring_up.add_argument("--prometheus", action="store_true", help="start a Prometheus that scrapes the components (built if needed)")
    _command(commands, "down", _down, "end a cluster and remove its files")
    _command(commands, "status", _status, "show the components; exit code 1 unless all are healthy")
    _command(commands, "kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    logs = _command(commands, "logs", _logs, "print a component's log")
    logs.add_argument("component", nargs="?", default="kube-apiserver")
    build = _command(commands, "binaries", _binaries, "build the programs if needed and print their folder", named=False)
    build.add_argument("--with-test-programs", action="store_true", help="build Prometheus, promtool and node_exporter as well")
    query = _command(commands, "query", _query, "run a Prometheus until a query has a result, and print that as JSON", named=False)
    query.add_argument("config", type=Path, help="the configuration file of Prometheus")
    query.add_argument("promql", help="the query")
    query.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="default: %(default)s; then the exit code is 1")
    kind.add_parser(commands)
    hosts.add_parser(commands)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    *,
    named: bool = True,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    if named:
        command.add_argument("--name", default=DEFAULT_NAME, help="which cluster (default: %(default)s)")
    return command


def _handle(options: argparse.Namespace) -> Cluster:
    return Cluster.at(default_folder(options.name), options.name)


def _say(line: str) -> None:
    print(line, flush=True)


def _up(options: argparse.Namespace) -> int:
    cluster = up(
        default_folder(options.name),
        options.name,
        scenario=options.scenario,
        variant=options.variant,
        prometheus=options.prometheus,
        log=_say,
    )
    if not cluster.get("/api/v1/nodes?limit=1")["items"]:
        _say("no nodes yet: add --scenario demo")
    _say(f"export KUBECONFIG={cluster.kubeconfig}")
    _say(f"export PATH={binaries.ensure()}:$PATH    # kubectl")
    return 0


def _down(options: argparse.Namespace) -> int:
    _handle(options).down(log=_say)
    return 0


def _status(options: argparse.Namespace) -> int:
    cluster = _handle(options)
    rows = cluster.status()
    if not rows:
        _say(f"cluster {cluster.name} is not up")
        return EXIT_ERROR
    for row in rows:
        _say(f"{row.component:<24} {'running' if row.alive else 'ended':<8} {row.pid or ''}")
    if not all(row.alive for row in rows):
        return EXIT_ERROR
    cluster.wait_ready(timeout_s=5)
    _say(f"all healthy, {cluster.server}, {cluster.kubeconfig}")
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    cluster = _handle(options)
    if not cluster.exists():
        raise LabError(f"cluster {cluster.name} is not up: python -m lab up --name {cluster.name}")
    _say(str(cluster.kubeconfig))
    return 0


def _logs(options: argparse.Namespace) -> int:
    print(_handle(options).logs(options.component), end="")
    return 0


def _binaries(options: argparse.Namespace) -> int:
    folder = binaries.ensure(_report)
    if options.with_test_programs:
        binaries.ensure_test_programs(_report)
    _say(str(folder))
    return 0


def _query(options: argparse.Namespace) -> int:
    result = query_with(options.config, options.promql, timeout_s=options.timeout)
    _say(json.dumps(result))
    return 0 if result else EXIT_ERROR


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
