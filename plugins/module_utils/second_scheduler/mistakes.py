# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of a second scheduler, each with its remedy."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ..model.values.nearest import nearest
from ..scheduler_config.validation import config_problems
from ..scheduler_config.values import duration_ns
from ..scheduler_config.versions import target_of
from .configuration import WITH_PROMQL, ExtenderContainer, SchedulerVariables, scheduler_configuration, source_hosts
from .mounted_files import file_mistakes

PREFIX = "extended_scheduler_"
DEFAULT_SCHEDULER = "default-scheduler"
MAX_EXTENDERS = 20
VERBS = ("filterVerb", "prioritizeVerb", "preemptVerb")
ENTRY_FIELDS = (*VERBS, "weight", "nodeCacheCapable", "ignorable", "httpTimeout", "managedResources")
"""The fields of an extender in KubeSchedulerConfiguration (k8s.io/kube-scheduler/config/v1) that fit an extender in the same pod."""
EXTENDER_FIELDS = ("settings", "entries")
OWN_SETTINGS = {
    "listen": "the role sets it",
    "status_address": "the role sets it",
    "check_sources": "the program would end after the check",
    "record": "the extender has no folder that it can write",
}
"""The settings that cannot be given, and the reason."""
PROFILE_FIELDS = ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig")
LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def mistakes_in(variables: SchedulerVariables, extenders: Sequence[ExtenderContainer], namespaces: str) -> list[str]:
    """Return a sentence for each other mistake. ``namespaces`` is the key of the label of namespaces, or empty."""
    found = [*_profile_mistakes(variables), *_preset_mistakes(variables, extenders), *_learning_mistakes(variables, extenders)]
    if variables.is_on_hosts:
        found += _service_mistakes(extenders)
    if len(extenders) > MAX_EXTENDERS:
        found.append(f"{PREFIX}extenders has {len(extenders)} entries: at most {MAX_EXTENDERS} are possible")
    for extender in extenders:
        found += [f"{PREFIX}extenders[{extender.number - 1}]{text}" for text in _extender_mistakes(extender, variables)]
    found += dict.fromkeys(_file_mistakes(variables, extenders))
    if (duration_ns(variables.http_timeout) or 0) <= 0:
        found.append(f"{PREFIX}http_timeout is {variables.http_timeout}: write it as a duration of Go, such as 200ms or 2s")
    if namespaces and not LABEL_KEY.fullmatch(namespaces):
        found.append(f"{PREFIX}namespaces is {namespaces}: write the key of a label, such as kube-scheduling.onprem/profile")
    for name in variables.profile_names if namespaces else ():
        if not LABEL_VALUE.fullmatch(name):
            found.append(
                f"{PREFIX}namespaces is set, and the profile {name} is no value of a label, which has at most 63 characters: rename it"
            )
    # The rules of kube-scheduler name fields of its configuration. The sentences above name the variable, so they come first.
    return found or list(_refused_by_the_scheduler(variables, extenders))


def _refused_by_the_scheduler(variables: SchedulerVariables, extenders: Sequence[ExtenderContainer]) -> Iterator[str]:
    """Yield what kube-scheduler would refuse."""
    config = scheduler_configuration(variables, extenders)
    for problem in config_problems(config, target_of(None, "v1"), frozenset(variables.known_plugins)):
        if problem.is_refused_by_scheduler:
            variable = "profiles" if problem.path.startswith("profiles") else "extenders"
            # The library names the option of scheduler_profile.
            yield f"{PREFIX}{variable}: kube-scheduler would refuse {problem}".replace(" known_plugins", f" {PREFIX}known_plugins")


def _profile_mistakes(variables: SchedulerVariables) -> Iterator[str]:
    names = variables.profile_names
    for number, profile in enumerate(variables.profiles):
        for name in profile:
            if name not in PROFILE_FIELDS:
                yield f"{PREFIX}profiles[{number}] has the unknown field {name}{_proposal(str(name), PROFILE_FIELDS)}"
    variable = "profiles" if variables.profiles else "profile_name"
    if "" in names:
        yield f"{PREFIX}{variable}: a profile has no name: set {'schedulerName' if variables.profiles else 'it'} to the name that pods have"
    if DEFAULT_SCHEDULER in names and not variables.extends_cluster:
        yield f"{PREFIX}{variable} has {DEFAULT_SCHEDULER}, whose pods the scheduler of the cluster places: choose another name"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{PREFIX}profiles has the schedulerName {name} twice: each profile needs a name of its own"


def _preset_mistakes(variables: SchedulerVariables, extenders: Sequence[ExtenderContainer]) -> Iterator[str]:
    if variables.extenders:
        return
    agents = {name for extender in extenders for name in extender.agents}
    if agents & WITH_PROMQL and not any("prometheus" in (extender.settings.get("sources") or {}) for extender in extenders):
        yield f"{PREFIX}preset is {variables.preset}, which needs Prometheus: set {PREFIX}prometheus_urls"
    for name in variables.agent_args:
        if name not in agents:
            text = f"{PREFIX}agent_args has {name}, and the preset {variables.preset} has no such agent"
            yield text + _proposal(str(name), sorted(agents))


def _learning_mistakes(variables: SchedulerVariables, extenders: Sequence[ExtenderContainer]) -> Iterator[str]:
    learning = [extender.name for extender in extenders if set(extender.agents) & set(variables.learning_agents)]
    if len(learning) > 1:
        yield (
            f"{' and '.join(learning)} have learning agents, and only one extender can save what they learn: put these agents into one "
            "extender"
        )


def _service_mistakes(extenders: Sequence[ExtenderContainer]) -> Iterator[str]:
    """Yield a sentence for each source with the name of a Service. On the network of a host, the DNS of the cluster is not used."""
    for host in source_hosts(extenders):
        if host.endswith((".svc", ".svc.cluster.local")):
            yield (
                f"a source has {host}, the name of a Service, which the network of a host does not resolve: write the cluster IP of the "
                "Service, the address of a NodePort, or a name of your own DNS"
            )


def shape_mistakes_in(variables: SchedulerVariables) -> Iterator[str]:
    """Yield a sentence for each mistake without whose correction the files cannot be made."""
    for number, given in enumerate(variables.extenders):
        place = f"{PREFIX}extenders[{number}]"
        for name in given:
            if name not in EXTENDER_FIELDS:
                yield f"{place} has the unknown key {name}{_proposal(str(name), EXTENDER_FIELDS)}"
        if not isinstance(given.get("settings", {}), Mapping):
            yield f"{place}.settings is no dictionary: write the settings of the extender, such as profiles"
        elif "profiles" not in given.get("settings", {}):
            yield f"{place}.settings has no profiles: add the agents of each profile"
        entries = given.get("entries", [])
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            yield f"{place}.entries is no list of dictionaries: write entries: [{{KEY: VALUE}}]"


def _extender_mistakes(extender: ExtenderContainer, variables: SchedulerVariables) -> Iterator[str]:
    for name in OWN_SETTINGS:
        if name in extender.settings:
            yield f".settings has {name}: remove it, because {OWN_SETTINGS[name]}"
    server = extender.settings.get("server")
    if isinstance(server, Mapping) and "tls" in server:
        yield ".settings has server.tls: remove it, because only the scheduler on the same host or in the same pod uses the address"
    if not extender.entries:
        yield " has no entries: add a list for the scheduler's configuration, such as [{prioritizeVerb: prioritize, weight: 5}]"
    for number, entry in enumerate(extender.entries):
        for text in _entry_mistakes(entry, variables.http_timeout):
            yield f".entries[{number}] {text}"
    profiles = extender.settings.get("profiles")
    for name in profiles if isinstance(profiles, Mapping) else ():
        if name != "*" and name not in variables.profile_names:
            known = ", ".join(variables.profile_names)
            yield f".settings has the profile {name}, which the scheduler does not have: use {known}, or add it to {PREFIX}profiles"


def _file_mistakes(variables: SchedulerVariables, extenders: Sequence[ExtenderContainer]) -> Iterator[str]:
    """Yield a sentence for each file that a container does not have. The sources of a preset are those of one variable."""
    for extender in extenders:
        place = f"{PREFIX}extenders[{extender.number - 1}].settings" if variables.extenders else f"{PREFIX}sources"
        yield from (place + text for text in file_mistakes(extender.settings, variables.shape))


def _entry_mistakes(entry: Mapping[str, t.Any], http_timeout: str) -> Iterator[str]:
    for name in entry:
        if name == "urlPrefix":
            yield "has urlPrefix: remove it, because the role sets it"
        elif name == "bindVerb":
            yield "has bindVerb: remove it, because the extender does not bind pods"
        elif name not in ENTRY_FIELDS:
            yield f"has the unknown field {name}{_proposal(str(name), ENTRY_FIELDS)}"
    if not any(entry.get(verb) for verb in VERBS):
        yield f"has no verb: add one of {', '.join(VERBS)}"
    weight = entry.get("weight")
    if entry.get("prioritizeVerb") and not (isinstance(weight, int) and not isinstance(weight, bool) and weight > 0):
        yield "has prioritizeVerb and no weight: add a weight above 0"
    if entry.get("filterVerb") and not entry.get("preemptVerb"):
        yield (
            "has filterVerb and no preemptVerb, so preemption would delete pods on nodes that the filter rejects afterwards: add "
            "preemptVerb: preempt"
        )
    timeout = str(entry.get("httpTimeout"))
    if timeout != http_timeout and (duration_ns(timeout) or 0) <= 0:
        yield f"has httpTimeout {timeout}: write it as a duration of Go, such as 200ms or 2s"


def _proposal(name: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about an unknown name: the name that was meant, or all names."""
    return nearest(name, known) or f": use {', '.join(known)}"
