# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The profiles of FILE, with their agents."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence

from ....plugins.module_utils.model.codec import Struct, field
from ...common.kinds import Text, one_of, positive
from ...common.settings import Values
from ...common.typed_settings import Mistake, SettingPath, read
from ..agents.registry import AgentError, agent_code, load_agent, read_arguments, start_agent
from ..engine.profile import ANY_SCHEDULER, MEDIAN, UNKNOWN_POLICIES, ConfiguredAgent, Profile
from ..interface import Agent, Query
from ..sources.missing import prometheus_violation
from ..sources.settings import SourceSettings

MAX_WEIGHT = 1_000_000
PROFILES = ("profiles",)


class AgentEntry(Struct, frozen=True):
    """An agent as FILE describes it."""

    REMEDY = "; an argument of the agent belongs below args"

    name: Text
    weight: t.Annotated[float, positive(MAX_WEIGHT)] = 1.0
    filter: bool = False
    args: dict[str, t.Any] = field(default_factory=dict)


class ProfileEntry(Struct, frozen=True):
    """A profile as FILE describes it. ``agents`` are read one by one, so that each can be used without the others."""

    agents: tuple[t.Any, ...] = ()
    unknown: t.Annotated[str, one_of(*UNKNOWN_POLICIES)] = MEDIAN

    def __post_init__(self) -> None:
        if not self.agents:
            raise ValueError("agents is empty: name at least one agent, such as [{name: network_traffic}]")


class BuiltAgent(t.NamedTuple):
    """An agent of a profile, with the arguments from which it was made."""

    profile: str
    name: str
    args: t.Any
    agent: Agent


class ProfileBuilder:
    """Makes the profiles with their agents.

    ``original_args``: arguments of the original's variables by the name of the agent. They apply to every profile. ``sources``: the
    sources of FILE, or None if they cannot be used. ``known``: the agents of the last reading. One whose arguments are the same is used
    again, because it may have learned something.

    The results: ``refused`` has the agents that are left out, because their code fails. ``notes`` are about settings without an effect.
    ``agents`` are those of all profiles, for the next reading of FILE.
    """

    def __init__(
        self,
        values: Values,
        original_args: Mapping[str, Mapping[str, t.Any]],
        sources: SourceSettings | None,
        known: Sequence[BuiltAgent],
    ) -> None:
        self._mistakes, self._original_args, self._sources, self._known = values.mistakes, original_args, sources, known
        self.refused: list[Mistake] = []
        self.notes: list[Mistake] = []
        self.agents: list[BuiltAgent] = []

    def build(self, profiles: t.Any) -> dict[str, Profile]:
        """Return the profiles.

        An agent whose code fails is left out, and the others continue. Wrong arguments are mistakes. If all agents of FILE are left out,
        that is a mistake, too.
        """
        if isinstance(profiles, list) and profiles:
            expected = "a mapping is expected, with the schedulerName of each profile as the key, such as web: {agents: […]}"
            self._mistakes.add(PROFILES, f" is a list: {expected}")
            return {}
        if not isinstance(profiles, Mapping) or not profiles:
            self._mistakes.add(PROFILES, f': at least one profile is expected, by its schedulerName, or "{ANY_SCHEDULER}" for all pods')
            return {}
        found = {name: self._profile(name, entry) for name, entry in profiles.items()}
        if self.refused and (self._mistakes or not self.agents):
            self._mistakes += self.refused
        return found

    def _profile(self, name: str, value: t.Any) -> Profile:
        path = (*PROFILES, name)
        if not name:
            self._mistakes.add(PROFILES, f' has an empty name: a schedulerName is expected, or "{ANY_SCHEDULER}"')
        entry = read(ProfileEntry, value, path, self._mistakes)
        agents: list[ConfiguredAgent] = []
        for number, one in enumerate(entry.agents if entry is not None else ()):
            path_of_agent = (*path, "agents", number)
            try:
                agents += self._configured(name, path_of_agent, one)
            except AgentError as error:
                self.refused.append(Mistake((*path_of_agent, "name"), f": {error}"))
        return Profile(name, _labelled(agents), entry.unknown if entry is not None else MEDIAN)

    def _configured(self, profile: str, path: SettingPath, value: t.Any) -> list[ConfiguredAgent]:
        """Return the agent, or nothing if it has a mistake. Raises AgentError if its code fails."""
        entry = read(AgentEntry, value, path, self._mistakes)
        if entry is None:
            return []
        kind = load_agent(entry.name)
        if entry.filter and not kind.can_filter:
            self._mistakes.add((*path, "filter"), f" is true: the agent {entry.name} has no filter")
        given, args_path = {**entry.args, **self._original_args.get(entry.name, {})}, (*path, "args")
        args = read_arguments(kind, given, args_path, self._mistakes)
        if args is None:
            return []
        agent = self._kept(profile, entry.name, args) or start_agent(kind, args, args_path, self._mistakes)
        if agent is None:
            return []
        _check_queries(agent)
        with agent_code(f"the filter of the agent {entry.name} cannot be used"):
            reason = agent.ineffective_filter if entry.filter else ""
        if reason:
            self.notes.append(Mistake((*path, "filter"), f" is true, and rejects no node: {reason}"))
        unanswered = prometheus_violation(agent, self._sources) if self._sources is not None else ""
        if unanswered:
            self._mistakes.add((*path, "name"), f": {unanswered}")
        self.agents.append(BuiltAgent(profile, entry.name, args, agent))
        return [ConfiguredAgent(agent, entry.weight, entry.filter)]

    def _kept(self, profile: str, name: str, args: t.Any) -> Agent | None:
        """Return the agent of the last reading with these arguments, or None."""
        return next((one.agent for one in self._known if one[:3] == (profile, name, args)), None)


def _check_queries(agent: Agent) -> None:
    """Raise AgentError if the queries of an agent cannot be used. Later it would not be possible to leave out only this agent."""
    with agent_code(f"the queries of the agent {agent.name} cannot be used"):
        wrong = [query for query in agent.queries if not isinstance(query, Query)]
        hash(tuple(agent.queries))
    if wrong:
        raise AgentError(f"the agent {agent.name} has the query {wrong[0]!r}, which is none of interface.Query")


def _labelled(agents: Sequence[ConfiguredAgent]) -> tuple[ConfiguredAgent, ...]:
    """Return the agents with unique names for people."""
    count = Counter(one.agent.name for one in agents)
    seen: Counter[str] = Counter()
    found = []
    for one in agents:
        name = one.agent.name
        seen[name] += 1
        label = f"{name}-{seen[name]}" if count[name] > 1 else name
        found.append(ConfiguredAgent(one.agent, one.weight, one.filters, label))
    return tuple(found)
