# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The profiles of a configuration, as far as they decide on which nodes a pod can run and how these nodes are scored."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from ..model.api.node import NodeSelector
from ..model.codec import decode_json, encode_json
from ..model.reason import Reason
from ..model.scheduler_profile import SchedulerProfile
from .plugin_sets import EnabledPlugins, KnownPlugins
from .plugin_tables import PLUGINS
from .problem import SchedulerConfigError, problems_text
from .score_settings import arguments_of, constraints_of, score_settings_of, without_nulls
from .validation import DEFAULT_SCHEDULER, config_problems
from .values import list_of, mapping_of, number_of, text_of
from .versions import ConfigTarget, short_name

DO_NOT_SCHEDULE = "DoNotSchedule"
DECIDING_POINTS = ("preEnqueue", "preFilter", "filter", "reserve", "permit")
"""The extension points at which a plugin can keep a pod off a node, or prevent its binding."""
NOT_PREEMPTING = {"DynamicResources"}
"""Plugins at the extension point postFilter that preempt no pod."""
_FILTERING_EXTENDER = Reason("depends_on_extender", "an extender of the scheduler may reject nodes")


def profiles_of(config: t.Any, scheduler: str) -> dict[str, SchedulerProfile]:
    """Return the profiles by their scheduler names. ``scheduler`` is the name of the kube-scheduler that has the configuration.

    Raise SchedulerConfigError, whose text names the wrong field, for a configuration with which kube-scheduler would not start. Plugins
    that are not in the tables count as out-of-tree plugins.
    """
    if not isinstance(config, Mapping):
        raise SchedulerConfigError("it is not a KubeSchedulerConfiguration; its content must begin with apiVersion, kind and profiles")
    target = ConfigTarget(short_name(config.get("apiVersion")), None)
    foreign = frozenset(_plugin_names(config)) - PLUGINS.keys()
    problems = [problem for problem in config_problems(config, target, foreign) if problem.is_refused_by_scheduler]
    if problems:
        raise SchedulerConfigError(problems_text(problems))
    known = KnownPlugins(target, foreign)
    extenders = [mapping_of(one) for one in list_of(config.get("extenders"))]
    profiles = [mapping_of(one) for one in list_of(config.get("profiles"))] or [{}]
    names = [text_of(profile.get("schedulerName")) or DEFAULT_SCHEDULER for profile in profiles]
    percentage = number_of(config.get("percentageOfNodesToScore"))
    return {name: _profile_of(profile, extenders, known, scheduler, percentage) for name, profile in zip(names, profiles)}


def _profile_of(
    profile: Mapping[str, t.Any], extenders: list[Mapping[str, t.Any]], known: KnownPlugins, scheduler: str, percentage: int
) -> SchedulerProfile:
    """Return one profile. ``percentage``: the share of the nodes that profiles without their own score."""
    plugins = EnabledPlugins(profile.get("plugins"), known)
    enabled = {point: {name for name, _weight in plugins.at(point)} for point in DECIDING_POINTS}
    fit, affinity, spread = (arguments_of(profile, name) for name in ("NodeResourcesFit", "NodeAffinity", "PodTopologySpread"))
    ignored = _managed(extenders, "ignoredByScheduler")
    filtering = [extender for extender in extenders if extender.get("filterVerb")]
    # The resources that extenders ignore replace those of the arguments (``pkg/scheduler/scheduler.go``).
    ignored = ignored or frozenset(map(text_of, list_of(fit.get("ignoredResources"))))
    return SchedulerProfile(
        added_affinity=_added_affinity(affinity),
        ignored_resources=ignored,
        ignored_resource_groups=frozenset(map(text_of, list_of(fit.get("ignoredResourceGroups")))),
        default_constraints=constraints_of(spread, DO_NOT_SCHEDULE),
        disabled_filters=_defaults_at("filter", known) - enabled["filter"],
        disabled_pre_filters=_defaults_at("preFilter", known) - enabled["preFilter"],
        unknown=tuple(_unknown(enabled, filtering, known)),
        extender_resources=_managed(filtering, "name"),
        scheduler=scheduler,
        preempts=bool({name for name, _weight in plugins.at("postFilter")} - NOT_PREEMPTING),
        scores=score_settings_of(profile, extenders, plugins, known),
        percentage_of_nodes=number_of(profile.get("percentageOfNodesToScore"), percentage),
    )


def _added_affinity(args: Mapping[str, t.Any]) -> t.Optional[NodeSelector]:
    required = mapping_of(args.get("addedAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else decode_json(NodeSelector, encode_json(without_nulls(required)))


def _defaults_at(point: str, known: KnownPlugins) -> frozenset[str]:
    """Return the plugins that are enabled at the extension point by default."""
    return frozenset(name for name, _weight in known.defaults() if known.extends(name, point))


def _managed(extenders: list[Mapping[str, t.Any]], field: str) -> frozenset[str]:
    """Return the names of the managed resources of the extenders for which the field is set."""
    managed = [mapping_of(one) for extender in extenders for one in list_of(extender.get("managedResources"))]
    return frozenset(text_of(one.get("name")) for one in managed if one.get(field))


def _unknown(enabled: Mapping[str, set[str]], filtering: list[Mapping[str, t.Any]], known: KnownPlugins) -> Iterator[Reason]:
    """Yield the reasons why it is not known which nodes the scheduler would reject for any pod of the profile."""
    if any(not list_of(extender.get("managedResources")) for extender in filtering):
        yield _FILTERING_EXTENDER
    for name in sorted(known.out_of_tree.intersection(*[set().union(*enabled.values())])):
        yield Reason("foreign_plugin", f"the plugin {name} of the scheduler is not one of Kubernetes, and may reject nodes")
    # Such a filter reads the result of its PreFilter and fails without it.
    for name in sorted(enabled["filter"] & _defaults_at("preFilter", known) - enabled["preFilter"]):
        yield Reason("plugin_without_pre_filter", f"the plugin {name} of the scheduler filters nodes, and its PreFilter is disabled")


def _plugin_names(config: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the plugins that the profiles enable, disable or give arguments to."""
    for profile in map(mapping_of, list_of(config.get("profiles"))):
        sets = [mapping_of(one) for one in mapping_of(profile.get("plugins")).values()]
        entries = [entry for one in sets for entry in (*list_of(one.get("enabled")), *list_of(one.get("disabled")))]
        for entry in (*entries, *list_of(profile.get("pluginConfig"))):
            name = text_of(mapping_of(entry).get("name"))
            if name and name != "*":
                yield name
