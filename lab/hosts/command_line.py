# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part `hosts` of the lab's command line: up, down, archives."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from lab.hosts import programs
from lab.hosts.machines import MACHINES, Hosts
from lab.kind.command_line import DEFAULT_NAME
from lab.layout import REPOSITORY


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `hosts` with its own commands."""
    text = "Debian machines in containers, with systemd"
    parts = commands.add_parser("hosts", help=text, description=text).add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (("up", _up, "start new machines"), ("down", _down, "remove the machines and their files")):
        command = parts.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        command.add_argument("--name", default=DEFAULT_NAME, help="which machines (default: %(default)s)")
        command.add_argument("--folder", type=Path, default=None, help="folder of their files (default: .lab/hosts/NAME)")
        if run is _up:
            command.add_argument("--machine", action="append", choices=MACHINES, help="only this machine; may be given several times")
            command.add_argument("--network", default=None, help="network of the engine, such as kind (default: the engine's own)")
    text = "build release archives of node_exporter if needed, and print their versions, paths and checksums"
    parts.add_parser("archives", help=text, description=text).set_defaults(run=_archives)


def _hosts(options: argparse.Namespace) -> Hosts:
    return Hosts.at(options.folder or REPOSITORY / ".lab" / "hosts" / options.name, options.name)


def _say(line: str) -> None:
    print(line, flush=True)


def _up(options: argparse.Namespace) -> int:
    # The command is explicit, so it needs no further permission to install packages.
    _hosts(options).up(_say, install=True, machines=options.machine or tuple(MACHINES), network=options.network)
    return 0


def _down(options: argparse.Namespace) -> int:
    _hosts(options).down(_say)
    return 0


def _archives(_options: argparse.Namespace) -> int:
    for name, archive in programs.ensure(lambda _line: None).items():
        _say(json.dumps({"name": name, **asdict(archive)}))
    return 0
