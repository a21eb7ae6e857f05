# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The profiles of FILE, with their agents."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....plugins.module_utils.model.codec import encode_json
from ....plugins.module_utils.model.values.shown import shown_value
from ...common.settings import SettingsError
from ..agents.arguments import ArgumentError
from ..agents.registry import AgentError, build_agent, load_agent
from ..engine.profile import ANY_SCHEDULER, MEDIAN, UNKNOWN_POLICIES, ConfiguredAgent, Profile
from ..interface import Agent, Query
from ..settings_errors import ErrorList, FileSettingError, SettingPath
from ..sources.missing import prometheus_violation
from ..sources.settings import SourceSettings
from ..sources.settings_section import Section
from .document import Document

MAX_WEIGHT = 1_000_000
PROFILE_KEYS = ("agents", "unknown")
PROFILES = ("profiles",)
AGENT_KEYS = ("name", "weight", "filter", "args")


@dataclass(frozen=True)
class AgentEntry:
    """An agent as FILE describes it, at ``path``."""

    path: SettingPath
    name: str
    weight: float
    filters: bool
    args: Mapping[str, t.Any]


@dataclass(frozen=True)
class ProfileEntry:
    """A profile as FILE describes it."""

    name: str
    unknown: str
    agents: tuple[AgentEntry, ...]


AgentKey = tuple[str, str, bytes]


class Built(t.NamedTuple):
    """The profiles with their agents. ``refused``: sentences about agents that are left out, because they cannot be used.

    ``notes``: sentences about settings without an effect. ``agents``: the agents by the profile, the name and the arguments, for the next
    reading of FILE.
    """

    profiles: Mapping[str, Profile]
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    agents: Mapping[AgentKey, Agent]


def read_profiles(document: Document, errors: ErrorList) -> tuple[ProfileEntry, ...]:
    """Return the profiles of FILE. Those that cannot be used, and their agents, are left out, with an error. Raises FileSettingError."""
    value = document.content.get("profiles")
    if isinstance(value, list) and value:
        expected = "a mapping is expected, with the schedulerName of each profile as the key, such as web: {agents: […]}"
        raise FileSettingError(PROFILES, f" is a list: {expected}")
    if not isinstance(value, Mapping) or not value:
        raise FileSettingError(PROFILES, f': at least one profile is expected, by its schedulerName, or "{ANY_SCHEDULER}" for all pods')
    found = []
    for name, entry in value.items():
        with errors.collected():
            found.append(_profile(name, entry, errors))
    return tuple(found)


class ProfileBuilder:
    """Makes the profiles with their agents.

    ``original_args``: arguments of the original's variables by the name of the agent. They apply to every profile. ``sources``: the
    sources of FILE, or None if they cannot be used. ``known``: the agents
    of the last reading. One whose arguments are the same is used again, because it may have learned something.
    """

    def __init__(
        self,
        document: Document,
        original_args: Mapping[str, Mapping[str, t.Any]],
        sources: SourceSettings | None,
        errors: ErrorList,
        known: Mapping[AgentKey, Agent] | None = None,
    ) -> None:
        self._document, self._original_args, self._sources, self._errors = document, original_args, sources, errors
        self._known = known or {}
        self._refused: list[SettingsError] = []
        self._notes: list[str] = []
        self._used: dict[AgentKey, Agent] = {}

    def build(self, entries: Sequence[ProfileEntry]) -> Built:
        """Return the profiles.

        An agent whose code fails is left out, and the others continue. Wrong arguments are errors, and so is a FILE all of whose agents are
        left out.
        """
        profiles = {entry.name: self._profile(entry) for entry in entries}
        if self._refused and (self._errors.errors or not self._used):
            self._errors.errors += self._refused
        return Built(profiles, tuple(map(self._document.shown, self._refused)), tuple(self._notes), self._used)

    def _profile(self, entry: ProfileEntry) -> Profile:
        agents: list[ConfiguredAgent] = []
        for one in entry.agents:
            with self._errors.collected():
                agents += self._configured(entry.name, one)
        return Profile(entry.name, _labelled(agents), entry.unknown)

    def _configured(self, profile: str, entry: AgentEntry) -> list[ConfiguredAgent]:
        """Return the agent, or nothing for one whose code fails. Raises FileSettingError."""
        args = {**entry.args, **self._original_args.get(entry.name, {})}
        try:
            key = (profile, entry.name, encode_json(args))
        except ValueError:  # Python does not write a number with thousands of digits.
            raise FileSettingError((*entry.path, "args"), " has a number with too many digits") from None
        agent = self._known.get(key) or _agent(entry, args, self._refused, self._errors)
        if agent is None:
            return []
        try:
            _check_queries(entry, agent)
            notes = _notes(entry, agent)
        except AgentError as error:
            self._refused.append(_refusal(entry, error))
            return []
        if self._sources is not None:
            _check_sources(entry, agent, self._sources)
        self._used[key] = agent
        self._notes += [self._document.shown(note) for note in notes]
        return [ConfiguredAgent(agent, entry.weight, entry.filters)]


def _profile(name: t.Any, value: t.Any, errors: ErrorList) -> ProfileEntry:
    if not isinstance(name, str) or not name:
        raise FileSettingError(PROFILES, f' has the name {shown_value(name)}: a schedulerName is expected, or "{ANY_SCHEDULER}"')
    section = Section(value, (*PROFILES, name), PROFILE_KEYS, errors)
    agents = value.get("agents")
    if not isinstance(agents, list) or not agents:
        section.refuse("agents", "must be a list with at least one agent, such as [{name: network_traffic}]")
        agents = []
    entries = []
    for number, one in enumerate(agents):
        with errors.collected():
            entries += _entry((*section.path, "agents", number), one, errors)
    return ProfileEntry(name, section.choice("unknown", MEDIAN, UNKNOWN_POLICIES), tuple(entries))


def _entry(path: SettingPath, value: t.Any, errors: ErrorList) -> list[AgentEntry]:
    """Return the agent, or nothing if its name or its arguments cannot be used. Raises FileSettingError for a value that is no mapping."""
    section = Section(value, path, AGENT_KEYS, errors, remedy="; an argument of the agent belongs below args")
    weight = value.get("weight")
    if weight is None:
        weight = 1
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MAX_WEIGHT:
        section.refuse("weight", f"is {shown_value(weight)}: a number above 0 and at most {MAX_WEIGHT} is expected")
        weight = 1
    name, filters, args = section.text("name"), section.switch("filter"), value.get("args")
    if "name" not in section:
        errors.add(path, " has no name: name the agent, such as network_traffic")
    if args is not None and (not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args)):
        section.refuse("args", "must be a mapping of arguments by their names")
        return []
    return [AgentEntry(path, name, float(weight), filters, args or {})] if name else []


def _agent(entry: AgentEntry, args: Mapping[str, t.Any], refused: list[SettingsError], errors: ErrorList) -> Agent | None:
    """Return the agent, or None for one whose code fails. Raises FileSettingError for wrong arguments."""
    try:
        kind = load_agent(entry.name)
    except AgentError as error:
        refused.append(_refusal(entry, error))
        return None
    if entry.filters and not kind.can_filter:
        errors.add((*entry.path, "filter"), f" is true: the agent {entry.name} has no filter")
    try:
        return build_agent(entry.name, args)
    except AgentError as error:
        wrong = error.__cause__
        if isinstance(wrong, ArgumentError):
            raise FileSettingError((*entry.path, "args", *wrong.place), wrong.problem) from None
        refused.append(_refusal(entry, error))
        return None


def _refusal(entry: AgentEntry, error: AgentError) -> FileSettingError:
    """Return the sentence about an agent that is left out."""
    return FileSettingError((*entry.path, "name"), f": {error}")


def _notes(entry: AgentEntry, agent: Agent) -> list[FileSettingError]:
    """Return notes about settings of an agent without an effect. They have the type of an error, so that they are shown with the line.

    Raises AgentError.
    """
    try:
        reason = agent.ineffective_filter if entry.filters else ""
    except Exception as error:  # the code of other packages may raise anything
        raise AgentError(f"the filter of the agent {entry.name} cannot be used: {type(error).__name__}: {error}") from error
    return [FileSettingError((*entry.path, "filter"), f" is true, and rejects no node: {reason}")] if reason else []


def _check_queries(entry: AgentEntry, agent: Agent) -> None:
    """Raise AgentError if the queries of an agent cannot be used. Later nobody could refuse the agent alone."""
    try:
        wrong = [query for query in agent.queries if not isinstance(query, Query)]
        hash(tuple(agent.queries))
    except Exception as error:  # the code of other packages may raise anything
        raise AgentError(f"the queries of the agent {entry.name} cannot be used: {type(error).__name__}: {error}") from error
    if wrong:
        raise AgentError(f"the agent {entry.name} has the query {wrong[0]!r}, which is none of interface.Query")


def _check_sources(entry: AgentEntry, agent: Agent, sources: SourceSettings) -> None:
    """Raise FileSettingError if the agent never knows a node, because Prometheus is not configured."""
    reason = prometheus_violation(agent, sources)
    if reason:
        raise FileSettingError((*entry.path, "name"), f": {reason}")


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
