# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds agents by name: those of this folder, and those of other packages by the entry-point group ``onprem_kube_scheduling.agents``.

Only the modules of the requested agents are imported, so that a broken agent that nobody uses has no effect.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import typing as t
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points

from ....plugins.module_utils.model.codec import Struct, fields_of
from ....plugins.module_utils.model.values.nearest import nearest
from ....plugins.module_utils.model.values.shown import shown_value
from ...common.typed_settings import Mistakes, SettingPath, read
from ..interface import Agent

_PLAIN_NAME = re.compile(r"[\w.-]{1,60}")

GROUP = "onprem_kube_scheduling.agents"
BUILT_IN = {
    "budgets": "budgets.Budgets",
    "congestion": "original.congestion.Congestion",
    "metric": "metric.Metric",
    "network_traffic": "network_traffic.NetworkTraffic",
    "pigeon": "original.pigeon.Pigeon",
    "reward": "original.reward.Reward",
    "safe_balance": "safe_balance.SafeBalance",
    "safe_overload": "safe_overload.SafeOverload",
    "template": "template.Template",
}
"""The module of each agent of this folder, with its class. Those in ``original`` are from the original systems."""


class AgentError(ValueError):
    """An agent cannot be used. The text is a sentence that names it."""


def load_agent(name: str) -> type[Agent]:
    """Import an agent and return its class. Raises AgentError if there is no such agent, or if its import fails."""
    found = _load_built_in(name) if name in BUILT_IN else _load_entry_point(name)
    if not isinstance(found, type) or not issubclass(found, Agent):
        raise AgentError(f"agent {name}: its entry point is {found!r}, and a subclass of interface.Agent is expected")
    args_type = getattr(found, "args_type", None)
    if not (isinstance(args_type, type) and issubclass(args_type, Struct)):
        raise AgentError(
            f"agent {name}: the class {found.__qualname__} has no args_type: set it to a frozen msgspec.Struct, which has no fields if the"
            " agent has no arguments"
        )
    if found.compares_nodes and not found.per_demand:
        raise AgentError(
            f"agent {name}: the class {found.__qualname__} sets compares_nodes, which has an effect only with per_demand = True"
        )
    if found.name != name:
        raise AgentError(f"agent {name}: the class {found.__qualname__} has the name {found.name!r}: set name = {name!r} in the class")
    return found


def build_agent(name: str, args: Mapping[str, t.Any] | None = None) -> Agent:
    """Return an agent with its ``args`` of FILE. Raises AgentError, which names the agent and its wrong arguments."""
    kind, mistakes = load_agent(name), Mistakes()
    arguments = read_arguments(kind, args or {}, (), mistakes)
    agent = start_agent(kind, arguments, (), mistakes) if arguments is not None else None
    if agent is None or mistakes:
        raise AgentError(f"agent {name}, args: {'; '.join(map(str, mistakes))}")
    return agent


def read_arguments(kind: type[Agent], args: Mapping[str, t.Any], path: SettingPath, mistakes: Mistakes) -> t.Any:
    """Return the arguments of an agent, or None for wrong ones, whose mistakes are added. Raises AgentError if the agent's code fails."""
    with agent_code(f"agent {kind.name} cannot be started"):
        return read(kind.args_type, args, path, mistakes)


def start_agent(kind: type[Agent], args: t.Any, path: SettingPath, mistakes: Mistakes) -> Agent | None:
    """Return an agent, or None if it cannot use its arguments together. Raises AgentError if its code fails."""
    with agent_code(f"agent {kind.name} cannot be started"):
        try:
            return kind(args)
        except ValueError as error:
            mistakes.add_named(path, str(error), [one.encode_name for one in fields_of(kind.args_type)])
            return None


@contextlib.contextmanager
def agent_code(problem: str) -> Iterator[None]:
    """Raise AgentError with this text if the code of an agent raises an error, so that the other agents continue.

    The code of other packages may raise anything, and so may a library, such as numpy on a processor without the instructions that it
    needs.
    """
    try:
        yield
    except Exception as error:
        raise AgentError(f"{problem}: {type(error).__name__}: {error}") from error


def agent_names() -> list[str]:
    """Return the names of all agents, sorted. None of them is imported."""
    return sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def _load_built_in(name: str) -> t.Any:
    module, _dot, of_class = BUILT_IN[name].rpartition(".")
    with agent_code(f"agent {name} cannot be imported"):
        return getattr(importlib.import_module(f"{__package__}.{module}"), of_class)


def _load_entry_point(name: str) -> t.Any:
    entry = _entry_point(name)
    with agent_code(f"agent {name} cannot be imported from {entry.value}"):
        return entry.load()


def _entry_point(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(found) > 1:
        raise AgentError(f"agent {name}: several packages provide it ({', '.join(sorted(found))}); remove one of them")
    for entry in found.values():
        return entry
    names = agent_names()
    better = nearest(name, names) or f"; the agents are {', '.join(names)}, and an agent of your own needs its package in this environment"
    raise AgentError(f"there is no agent {name if _PLAIN_NAME.fullmatch(name) else shown_value(name)}{better}")
