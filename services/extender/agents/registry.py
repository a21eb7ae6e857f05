# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds agents by name: those of this folder, and those of other packages by the entry-point group ``onprem_kube_scheduling.agents``.

Only the modules of the requested agents are imported, so that a broken agent that nobody uses has no effect.
"""

from __future__ import annotations

import importlib
import re
import typing as t
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

from ....plugins.module_utils.model.values.nearest import nearest
from ....plugins.module_utils.model.values.shown import shown_value
from ..interface import Agent
from .arguments import ArgumentError, argument_error, read_arguments

_PLAIN_NAME = re.compile(r"[\w.-]{1,60}")

GROUP = "onprem_kube_scheduling.agents"
BUILT_IN = {
    "budgets": "Budgets",
    "congestion": "Congestion",
    "metric": "Metric",
    "network_traffic": "NetworkTraffic",
    "pigeon": "Pigeon",
    "reward": "Reward",
    "safe_balance": "SafeBalance",
    "safe_overload": "SafeOverload",
    "template": "Template",
}
"""The class of each agent of this folder. Its module has the name of the agent."""


class AgentError(ValueError):
    """An agent cannot be used. The text is a sentence that names it."""


def load_agent(name: str) -> type[Agent]:
    """Import an agent and return its class. Raises AgentError if there is no such agent, or if its import fails."""
    found = _load_built_in(name) if name in BUILT_IN else _load_entry_point(name)
    if not isinstance(found, type) or not issubclass(found, Agent):
        raise AgentError(f"agent {name}: its entry point is {found!r}, and a subclass of interface.Agent is expected")
    if not isinstance(getattr(found, "args_type", None), type):
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
    """Return an agent with its ``args`` of FILE. Raises AgentError, which names the agent and the argument.

    The cause of the error is an ArgumentError if the arguments cannot be used. Otherwise the code of the agent has failed.
    """
    kind = load_agent(name)
    try:
        return kind(read_arguments(kind.args_type, args))
    except ArgumentError as error:
        raise AgentError(f"agent {name}, args: {error}") from error
    except ValueError as error:
        raise AgentError(f"agent {name}, args: {error}") from argument_error(args or {}, str(error))
    except Exception as error:  # the code of other packages may raise anything, and the other agents must continue
        raise AgentError(f"agent {name} cannot be started: {_text_of(error)}") from error


def agent_names() -> list[str]:
    """Return the names of all agents, sorted. None of them is imported."""
    return sorted({*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def _load_built_in(name: str) -> t.Any:
    try:
        return getattr(importlib.import_module(f"{__package__}.{name}"), BUILT_IN[name])
    except Exception as error:  # a library may raise anything, such as numpy on a processor without the instructions that it needs
        raise AgentError(f"agent {name} cannot be imported: {_text_of(error)}") from error


def _load_entry_point(name: str) -> t.Any:
    entry = _entry_point(name)
    try:
        return entry.load()
    except Exception as error:  # the import of another package may raise anything
        raise AgentError(f"agent {name} cannot be imported from {entry.value}: {_text_of(error)}") from error


def _entry_point(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=name)}
    if len(found) > 1:
        raise AgentError(f"agent {name}: several packages provide it ({', '.join(sorted(found))}); remove one of them")
    for entry in found.values():
        return entry
    names = agent_names()
    better = nearest(name, names) or f"; the agents are {', '.join(names)}, and an agent of your own needs its package in this environment"
    raise AgentError(f"there is no agent {name if _PLAIN_NAME.fullmatch(name) else shown_value(name)}{better}")


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
