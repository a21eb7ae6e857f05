# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part `kind` of the lab's command line: up, down, kubeconfig, kubectl, audit, image, engine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lab.errors import LabError
from lab.kind import engine, node_image
from lab.kind.cluster import IMAGE_VARIABLE, KindCluster, image_of_environment
from lab.layout import REPOSITORY

BUILT = "built"
"""As the name of an image: the one that `lab.kind.node_image` builds."""
DEFAULT_NAME = "kube-scheduling"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `kind` with its own commands."""
    text = "a real cluster in containers, with kind"
    parts = commands.add_parser("kind", help=text, description=text).add_subparsers(required=True, metavar="COMMAND")
    up = _with_cluster(_command(parts, "up", _up, "start a cluster with two workers in two zones"))
    up.add_argument(
        "--image",
        default=None,
        help=f"the node image; `{BUILT}`: build one without a registry, as root "
        f"(default: {IMAGE_VARIABLE}, or else kind's own, or where that cannot be pulled `{BUILT}`)",
    )
    text = "number of control planes (default: %(default)s)"
    up.add_argument("--control-planes", type=int, choices=range(1, 6), default=1, metavar="N", help=text)
    _with_cluster(_command(parts, "down", _down, "remove a cluster and its files"))
    _with_cluster(_command(parts, "kubeconfig", _kubeconfig, "print the path of the kubeconfig"))
    audit = _with_cluster(_command(parts, "audit", _audit, "print the answered requests of the audit log, one JSON object a line"))
    audit.add_argument("--user", default=None, help="only this user's")
    audit.add_argument("--verb", default=None, help="only this verb")
    audit.add_argument("--resource", default=None, help="only this resource, with its subresource if there is one: pods/eviction")
    kubectl = _with_cluster(_command(parts, "kubectl", _kubectl, "run kubectl as the administrator"))
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER, help="the arguments of kubectl")
    _command(parts, "image", _image, "build the node image if needed, and print its name")
    actions = _command(parts, "engine", _engine, "the container engine: install and start it, end it, or say whether one answers")
    actions.add_argument("action", choices=["up", "down", "status"])


def _command(
    parts: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    command = parts.add_parser(name, help=text, description=text)
    command.set_defaults(run=run)
    return command


def _with_cluster(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    command.add_argument("--name", default=DEFAULT_NAME, help="which cluster (default: %(default)s)")
    command.add_argument("--folder", type=Path, default=None, help="folder of its files (default: .lab/kind/NAME)")
    return command


def _cluster(options: argparse.Namespace) -> KindCluster:
    return KindCluster.at(options.folder or REPOSITORY / ".lab" / "kind" / options.name, options.name)


def _say(line: str) -> None:
    print(line, flush=True)


def _up(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    engine.ensure(_say)
    # The option is explicit, so it needs no further permission to install packages.
    named = node_image.ensure(_say, install=True) if options.image == BUILT else options.image or image_of_environment()
    cluster.up(_say, image=named or node_image.choose(_say), control_planes=options.control_planes)
    _say(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _down(options: argparse.Namespace) -> int:
    _cluster(options).down(_say)
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    if not cluster.kubeconfig.exists():
        raise LabError(f"cluster {cluster.name} is not up: python -m lab kind up --name {cluster.name}")
    _say(str(cluster.kubeconfig))
    return 0


def _kubectl(options: argparse.Namespace) -> int:
    print(_cluster(options).kubectl(*options.arguments), end="")
    return 0


def _audit(options: argparse.Namespace) -> int:
    cluster = _cluster(options)
    if not cluster.audit_log.exists():
        raise LabError(f"{cluster.audit_log}: there is no audit log: start the cluster with python -m lab kind up --name {cluster.name}")
    resource, _, subresource = (options.resource or "").partition("/")
    for event in cluster.audit().events(user=options.user, verb=options.verb, resource=resource or None):
        if not resource or event.subresource == subresource:
            _say(json.dumps(asdict(event)))
    return 0


def _image(_options: argparse.Namespace) -> int:
    engine.ensure(_say)
    _say(node_image.ensure(_say, install=True))
    return 0


def _engine(options: argparse.Namespace) -> int:
    if options.action == "down":
        engine.stop(_say)
        return 0
    if options.action == "up":
        # The command is explicit, so it needs no further permission.
        engine.ensure(_say, install=True)
    reason = engine.problem()
    _say(reason or "a container engine answers")
    return 1 if reason else 0
