# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""All rules for a configuration. Their order is that of kube-scheduler: types, values of fields, plugins."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ..model.values.shown import shown_value
from .decoding import args_struct, checked_lists, type_problems
from .extender_rules import extender_problems, ignores_resources
from .plugin_args import args_problems, fit_args_problems
from .plugin_sets import EnabledPlugins, KnownPlugins, set_problems
from .problem import HARMFUL, UNKNOWN_FIELD, UNSAFE, Problem
from .values import duration_ns, list_of, mapping_of, number_of, text_of
from .versions import KIND, ConfigTarget, full_name

ProfileFields = Mapping[str, t.Any]

DEFAULT_SCHEDULER = "default-scheduler"
CLUSTER_LEASE = ("kube-system", "kube-scheduler")
"""Namespace and name of the Lease of a kube-scheduler without other settings, which is that of the cluster."""
JITTER = 1.2
"""The leader elector refuses a retry period that is longer than the renew deadline divided by this (client-go ``leaderelection.go``)."""
LEASE_DEFAULTS_NS = {"leaseDuration": 15 * 10**9, "renewDeadline": 10 * 10**9, "retryPeriod": 2 * 10**9}
FIT = "NodeResourcesFit"


def uses_cluster_lease(election: Mapping[str, t.Any]) -> bool:
    """Return whether a kube-scheduler with this leaderElection waits for the Lease of the scheduler of the cluster."""
    lease = (text_of(election.get("resourceNamespace")) or CLUSTER_LEASE[0], text_of(election.get("resourceName")) or CLUSTER_LEASE[1])
    return election.get("leaderElect") is not False and lease == CLUSTER_LEASE


def config_problems(config: Mapping[str, t.Any], target: ConfigTarget, known_plugins: frozenset[str] = frozenset()) -> list[Problem]:
    """Return the problems of a configuration. Values are checked only if all types are correct."""
    problems = [*_header_problems(config, target), *type_problems(config, target)]
    if any(problem.kind != UNKNOWN_FIELD for problem in problems):
        return problems
    profiles, extenders = checked_lists(config)
    known = KnownPlugins(target, known_plugins)
    problems += _election_problems(mapping_of(config.get("leaderElection")))
    problems += _number_problems(config)
    problems += _name_problems(profiles)
    problems += _queue_sort_problems(profiles, known)
    problems += extender_problems(extenders)
    for number, profile in enumerate(profiles or [{}]):
        problems += _profile_problems(profile, f"profiles[{number}]", known, extenders)
    return problems


def _header_problems(config: Mapping[str, t.Any], target: ConfigTarget) -> Iterator[Problem]:
    for key, wanted in (("apiVersion", full_name(target.api_version)), ("kind", KIND)):
        if config.get(key) != wanted:
            yield Problem(key, f"it is {shown_value(config.get(key))}, and {wanted} is expected", f"write {wanted}")


def _number_problems(config: Mapping[str, t.Any]) -> Iterator[Problem]:
    if number_of(config.get("parallelism"), 16) <= 0:
        yield Problem("parallelism", f"{config['parallelism']} is not above 0", "write a number such as 16")
    yield from _percentage_problem(config, "percentageOfNodesToScore")
    first, longest = number_of(config.get("podInitialBackoffSeconds"), 1), number_of(config.get("podMaxBackoffSeconds"), 10)
    if first <= 0:
        yield Problem("podInitialBackoffSeconds", f"{first} is not above 0", "write at least 1")
    if longest < first:
        yield Problem(
            "podMaxBackoffSeconds", f"{longest} is less than podInitialBackoffSeconds, which is {first}", f"write at least {first}"
        )
    if number_of(mapping_of(config.get("clientConnection")).get("burst")) < 0:
        yield Problem("clientConnection.burst", "it is negative", "write a number such as 100")


def _percentage_problem(fields: Mapping[str, t.Any], path: str) -> Iterator[Problem]:
    value = number_of(fields.get("percentageOfNodesToScore"))
    if not 0 <= value <= 100:
        yield Problem(path, f"{value} is not a percentage", "write a number from 0 to 100")


def _election_problems(election: Mapping[str, t.Any]) -> Iterator[Problem]:
    if election.get("leaderElect") is False:
        return
    lease, deadline, retry = (duration_ns(election.get(name)) or default for name, default in LEASE_DEFAULTS_NS.items())
    for name, value in (("leaseDuration", lease), ("renewDeadline", deadline), ("retryPeriod", retry)):
        if value <= 0:
            yield Problem(f"leaderElection.{name}", f"{election[name]} is not above 0", "write a duration such as 15s")
    if lease <= deadline:
        yield Problem(
            "leaderElection.leaseDuration", "it is not longer than renewDeadline", "write a longer one; the defaults are 15s and 10s"
        )
    elif retry > 0 and deadline <= JITTER * retry:
        message = f"it is not longer than {JITTER} times retryPeriod, so kube-scheduler ends when it starts to lead"
        yield Problem("leaderElection.renewDeadline", message, "write a longer one; the defaults are 10s and 2s", UNSAFE)
    if (election.get("resourceLock") or "leases") != "leases":
        yield Problem("leaderElection.resourceLock", f"{shown_value(election['resourceLock'])} is not supported any more", "write leases")


def _name_problems(profiles: Sequence[ProfileFields]) -> Iterator[Problem]:
    names = [profile.get("schedulerName") for profile in profiles]
    if names == [None]:
        return
    for number, name in enumerate(names):
        path = f"profiles[{number}].schedulerName"
        if not text_of(name):
            yield Problem(path, "it is missing", "add the name that pods have in spec.schedulerName")
        elif name in names[:number]:
            yield Problem(path, f"profiles[{names.index(name)}] has the same name {name}", "remove one of the profiles")


def _queue_sort_problems(profiles: Sequence[ProfileFields], known: KnownPlugins) -> Iterator[Problem]:
    """Yield the differences of the profiles in the plugin that sorts the queue, which all profiles share."""
    sets = [_sort_set(profile) for profile in profiles]
    plugins = [EnabledPlugins(profile.get("plugins"), known).at("queueSort") for profile in profiles]
    sorts = [(found[0][0] if found else "") for found in plugins]
    for number in range(1, len(profiles)):
        if sets[number] != sets[0] or sorts[number] != sorts[0]:
            path = f"profiles[{number}].plugins.queueSort"
            yield Problem(
                path, "it differs from that of the first profile, and all profiles share one queue", "write the same in all profiles"
            )
        elif _args_of(profiles[number], sorts[0]) != _args_of(profiles[0], sorts[0]):
            path = f"profiles[{number}].pluginConfig"
            yield Problem(path, f"the arguments of {sorts[0]} differ from those of the first profile", "write the same in all profiles")


def _sort_set(profile: ProfileFields) -> tuple[list[tuple[str, int]], list[str]]:
    found = mapping_of(mapping_of(profile.get("plugins")).get("queueSort"))
    enabled = [(text_of(one.get("name")), number_of(one.get("weight"))) for one in map(mapping_of, list_of(found.get("enabled")))]
    return enabled, [text_of(mapping_of(one).get("name")) for one in list_of(found.get("disabled"))]


def _args_of(profile: ProfileFields, plugin: str) -> t.Any:
    return next((one.get("args") for one in map(mapping_of, list_of(profile.get("pluginConfig"))) if one.get("name") == plugin), None)


def _profile_problems(
    profile: ProfileFields, path: str, known: KnownPlugins, extenders: Sequence[Mapping[str, t.Any]]
) -> Iterator[Problem]:
    yield from _percentage_problem(profile, f"{path}.percentageOfNodesToScore")
    yield from set_problems(profile.get("plugins"), path, known)
    enabled = EnabledPlugins(profile.get("plugins"), known).names()
    entries = [mapping_of(one) for one in list_of(profile.get("pluginConfig"))]
    names = [text_of(entry.get("name")) for entry in entries]
    ignoring = ignores_resources(extenders)
    for number, (name, entry) in enumerate(zip(names, entries)):
        place = f"{path}.pluginConfig[{number}]"
        if name in names[:number]:
            yield Problem(place, f"pluginConfig[{names.index(name)}] is for the same plugin {name}", "join the two entries")
        elif known.is_invalid(name):
            yield Problem(place, f"the plugin {name} was removed", "remove the entry")
        elif not known.has(name):
            yield Problem(place, f"there is no plugin {shown_value(name)}", "correct its name, or add it to known_plugins", HARMFUL)
        elif args_struct(name, known.target):
            args = mapping_of(entry.get("args"))
            yield from args_problems(name, args, f"{place}.args", known.target)
            if name == FIT and name in enabled:
                yield from fit_args_problems(args, f"{place}.args", ignored_by_extenders=ignoring)
    if ignoring and known.target.has_tables and FIT not in enabled and FIT not in names:
        remedy = f"add an entry for {FIT} to pluginConfig, or enable the plugin"
        yield Problem(f"{path}.pluginConfig", f"an extender has ignoredByScheduler, which needs arguments of {FIT}", remedy)
