# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of a second scheduler: its KubeSchedulerConfiguration, and the FILE of each of its extenders."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .mounted_files import MountedFile, mounted_files
from .presets import PRESETS, PresetExtender

Json = dict[str, t.Any]

FIRST_PORT = 5401
"""The port of extender-1, as in the original. It is open on 127.0.0.1 only."""
FIRST_STATUS_PORT = 5501
"""The port of extender-1 for probes and metrics, on each address of the pod."""
LEASE = "kube-scheduling-scheduler"
NAMESPACE = "kube-system"
WITH_RATES = frozenset({"network_traffic"})
"""The agents that can use the node_exporters of the nodes without Prometheus."""
WITH_PROMQL = frozenset({"safe_overload", "safe_balance", "metric"})
"""The agents that need Prometheus."""
WITHOUT_SOURCES = frozenset({"budgets", "template"})


@dataclass(frozen=True)
class SchedulerVariables:
    """The variables of the role extended_scheduler that decide about the files, by their names without the prefix."""

    profile_name: str
    preset: str
    weights: str
    http_timeout: str
    node_exporter_port: int
    prometheus_urls: Sequence[str] = ()
    sources: Mapping[str, t.Any] = field(default_factory=dict)
    agent_args: Mapping[str, t.Any] = field(default_factory=dict)
    profiles: Sequence[Mapping[str, t.Any]] = ()
    extenders: Sequence[Mapping[str, t.Any]] = ()
    learning_agents: Sequence[str] = ()
    known_plugins: Sequence[str] = ()
    shape: str = "second_scheduler"

    @property
    def extends_cluster(self) -> bool:
        """Return whether the scheduler of the cluster gets the profiles. Otherwise a second scheduler has them."""
        return self.shape == "kubeadm"

    @property
    def is_on_hosts(self) -> bool:
        """Return whether the extenders have the network of hosts, and no service account."""
        return self.shape in ("kubeadm", "systemd")

    @property
    def profile_names(self) -> list[str]:
        """Return the names by which pods choose the scheduler."""
        return [str(profile.get("schedulerName", "")) for profile in self.profiles] or [self.profile_name]


@dataclass(frozen=True)
class ExtenderContainer:
    """One container with an extender: the content of its FILE, and its entries in the scheduler's configuration."""

    number: int
    settings: Mapping[str, t.Any]
    entries: Sequence[Mapping[str, t.Any]]

    @property
    def name(self) -> str:
        return f"extender-{self.number}"

    @property
    def port(self) -> int:
        return FIRST_PORT + self.number - 1

    @property
    def status_port(self) -> int:
        return FIRST_STATUS_PORT + self.number - 1

    @property
    def agents(self) -> list[str]:
        """Return the names of all agents. A mistake in the settings is found by the program itself."""
        profiles = self.settings.get("profiles")
        found = (
            [profile.get("agents") for profile in profiles.values() if isinstance(profile, Mapping)]
            if isinstance(profiles, Mapping)
            else []
        )
        entries = [entry for agents in found if isinstance(agents, list) for entry in agents]
        return [str(entry.get("name")) for entry in entries if isinstance(entry, Mapping)]

    @property
    def mounted_files(self) -> list[MountedFile]:
        """Return the keys of Secrets and ConfigMaps that the settings name as files."""
        return mounted_files(self.settings)

    def file(self, *, on_host: bool = False) -> Json:
        """Return the whole FILE. With ``on_host`` the extender has the network of a host, and only programs there may reach it."""
        own = {"listen": f"127.0.0.1:{self.port}", "status_address": f"{'127.0.0.1' if on_host else ''}:{self.status_port}"}
        return {**own, **{name: value for name, value in self.settings.items() if name not in own}}


def extenders_of(variables: SchedulerVariables) -> list[ExtenderContainer]:
    """Return the extenders that the variables describe, in the order of their ports."""
    if variables.extenders:
        return [_own(number, entry, variables) for number, entry in enumerate(variables.extenders, 1)]
    preset = PRESETS[variables.preset][variables.weights]
    return [_of_preset(number, entry, variables) for number, entry in enumerate(preset, 1)]


def scheduler_configuration(variables: SchedulerVariables, extenders: Iterable[ExtenderContainer]) -> Json:
    """Return the KubeSchedulerConfiguration. In a pod a second scheduler finds the API server without a kubeconfig.

    A unit of systemd has a kubeconfig beside its configuration. The scheduler of the cluster keeps its own leader election and
    connection, and gets the rest.
    """
    lease = {"leaderElect": True, "resourceLock": "leases", "resourceName": LEASE, "resourceNamespace": NAMESPACE}
    own: Json = {} if variables.extends_cluster else {"leaderElection": lease}
    if variables.shape == "systemd":
        own["clientConnection"] = {"kubeconfig": "kubeconfig"}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **own,
        "profiles": [dict(profile) for profile in variables.profiles] or [{"schedulerName": variables.profile_name}],
        "extenders": [
            {"urlPrefix": f"http://127.0.0.1:{extender.port}/scheduler", **entry} for extender in extenders for entry in extender.entries
        ],
    }


def learns(variables: SchedulerVariables, extenders: Iterable[ExtenderContainer]) -> bool:
    """Return whether an agent stores what it has learned in the cluster."""
    return any(set(extender.agents) & set(variables.learning_agents) for extender in extenders)


def scrapes_nodes(extenders: Iterable[ExtenderContainer]) -> bool:
    """Return whether an extender reads the node_exporters itself."""
    return any("node_exporter" in (extender.settings.get("sources") or {}) for extender in extenders)


def source_hosts(extenders: Iterable[ExtenderContainer]) -> list[str]:
    """Return the names and addresses of the hosts in the URLs of all sources."""
    urls = (url for extender in extenders for url in _urls(extender.settings.get("sources")))
    return sorted({urlsplit(url).hostname or "" for url in urls} - {""})


def _of_preset(number: int, preset: PresetExtender, variables: SchedulerVariables) -> ExtenderContainer:
    agents = [_agent(name, weight, len(preset.agents) > 1, variables) for name, weight in preset.agents.items()]
    settings: Json = {"profiles": {name: {"agents": agents} for name in variables.profile_names}}
    sources = _sources(list(preset.agents), variables)
    scores: Json = {"preemptVerb": "preempt"} if preset.preempts else {"prioritizeVerb": "prioritize", "weight": preset.weight}
    # A preemption without an answer could violate a budget.
    entry = _entry({**scores, "ignorable": not preset.preempts}, variables)
    return ExtenderContainer(number, {"sources": sources, **settings} if sources else settings, [entry])


def _agent(name: str, weight: int, is_weighted: bool, variables: SchedulerVariables) -> Json:
    args = variables.agent_args.get(name)
    return {"name": name, **({"weight": weight} if is_weighted else {}), **({"args": args} if args else {})}


def _own(number: int, given: Mapping[str, t.Any], variables: SchedulerVariables) -> ExtenderContainer:
    settings = dict(given.get("settings") or {})
    extender = ExtenderContainer(number, settings, [])
    if "sources" not in settings:
        sources = _sources(extender.agents, variables)
        settings = {"sources": sources, **settings} if sources else settings
    return ExtenderContainer(number, settings, [_entry(entry, variables) for entry in given.get("entries") or []])


def _entry(given: Mapping[str, t.Any], variables: SchedulerVariables) -> Json:
    return {"nodeCacheCapable": True, "ignorable": True, "httpTimeout": variables.http_timeout, **given}


def _sources(agents: Sequence[str], variables: SchedulerVariables) -> Json:
    """Return the sources of an extender with these agents."""
    if set(agents) <= WITHOUT_SOURCES:
        return {}
    found: Json = {"kubernetes": {}}
    if variables.prometheus_urls:
        found["prometheus"] = {"urls": list(variables.prometheus_urls)}
    given = dict(variables.sources)
    if "prometheus" not in {**found, **given} and set(agents) & WITH_RATES:
        found["node_exporter"] = {"port": variables.node_exporter_port}
    return {name: _merged(found.get(name), given.get(name)) for name in {**found, **given}}


def _urls(value: t.Any) -> Iterator[str]:
    """Yield each URL in the settings of sources."""
    if isinstance(value, str) and value.startswith(("http://", "https://")):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _urls(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _urls(part)


def _merged(own: t.Any, given: t.Any) -> t.Any:
    return {**own, **given} if isinstance(own, Mapping) and isinstance(given, Mapping) else own if given is None else given
