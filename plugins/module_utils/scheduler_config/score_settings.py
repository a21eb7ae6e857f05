# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a profile that decide how nodes are scored (kubernetes ``pkg/scheduler/apis/config/v1/defaults.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ..model.api.pod import PreferredSchedulingTerm, TopologySpreadConstraint
from ..model.codec import decode_json, encode_json
from ..model.reason import Reason
from ..model.score_settings import LEAST_ALLOCATED, SCORED_RESOURCES, ScoreSettings, ShapePoint, WeightedResource
from .plugin_sets import EnabledPlugins, KnownPlugins
from .values import list_of, mapping_of, named, number_of, text_of

SCHEDULE_ANYWAY = "ScheduleAnyway"
NEED_PRE_SCORE = ("InterPodAffinity", "PodTopologySpread", "TaintToleration")
"""The plugins that fail to score without their PreScore."""
_EXTENDER = Reason("depends_on_extender", "an extender of the scheduler scores nodes")


def score_settings_of(
    profile: Mapping[str, t.Any], extenders: Iterable[Mapping[str, t.Any]], plugins: EnabledPlugins, known: KnownPlugins
) -> ScoreSettings:
    """Return the settings of a profile. ``extenders``: those of its configuration. ``plugins``: the enabled plugins of the profile."""
    fit = mapping_of(arguments_of(profile, "NodeResourcesFit").get("scoringStrategy"))
    balanced = arguments_of(profile, "NodeResourcesBalancedAllocation")
    affinity = arguments_of(profile, "InterPodAffinity")
    shape = list_of(mapping_of(fit.get("requestedToCapacityRatio")).get("shape"))
    scoring = [extender for extender in extenders if extender.get("prioritizeVerb")]
    return ScoreSettings(
        weights=tuple(sorted((name, weight or 1) for name, weight in plugins.at("score"))),
        strategy=text_of(fit.get("type")) or LEAST_ALLOCATED,
        resources=_resources(fit),
        shape=tuple(ShapePoint(number_of(point.get("utilization")), number_of(point.get("score"))) for point in map(mapping_of, shape)),
        balanced_resources=_resources(balanced),
        hard_pod_affinity_weight=number_of(affinity.get("hardPodAffinityWeight"), 1),
        ignores_preferred_terms=affinity.get("ignorePreferredTermsOfExistingPods") is True,
        added_terms=_added_terms(arguments_of(profile, "NodeAffinity")),
        default_constraints=_soft_constraints(arguments_of(profile, "PodTopologySpread")),
        scores_volumes=bool(arguments_of(profile, "VolumeBinding").get("shape")),
        unknown=tuple(_unknown(scoring, plugins, known)),
        extender_resources=frozenset(text_of(one.get("name")) for extender in scoring for one in _managed(extender)),
    )


def arguments_of(profile: Mapping[str, t.Any], plugin: str) -> Mapping[str, t.Any]:
    """Return the arguments that the profile gives to the plugin."""
    return mapping_of(mapping_of(named(profile.get("pluginConfig"), "name", plugin)).get("args"))


def constraints_of(args: Mapping[str, t.Any], action: str) -> tuple[TopologySpreadConstraint, ...]:
    """Return the default constraints with this ``whenUnsatisfiable`` in the arguments of PodTopologySpread."""
    constraints = [mapping_of(one) for one in list_of(args.get("defaultConstraints"))]
    wanted = [one for one in constraints if one.get("whenUnsatisfiable") == action]
    return tuple(decode_json(TopologySpreadConstraint, encode_json(without_nulls(one))) for one in wanted)


def without_nulls(value: t.Any) -> t.Any:
    """Return the value without null fields, which count as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    return [without_nulls(child) for child in value] if isinstance(value, list) else value


def _resources(args: Mapping[str, t.Any]) -> tuple[WeightedResource, ...]:
    found = [mapping_of(one) for one in list_of(args.get("resources"))]
    # A weight of 0 counts as 1, as an absent one does.
    return tuple(WeightedResource(text_of(one.get("name")), number_of(one.get("weight")) or 1) for one in found) or SCORED_RESOURCES


def _added_terms(args: Mapping[str, t.Any]) -> tuple[PreferredSchedulingTerm, ...]:
    preferred = list_of(mapping_of(args.get("addedAffinity")).get("preferredDuringSchedulingIgnoredDuringExecution"))
    return tuple(decode_json(PreferredSchedulingTerm, encode_json(without_nulls(term))) for term in preferred)


def _soft_constraints(args: Mapping[str, t.Any]) -> tuple[TopologySpreadConstraint, ...] | None:
    """Return the constraints that replace those of Kubernetes itself, or None if they are not replaced."""
    return constraints_of(args, SCHEDULE_ANYWAY) if args.get("defaultingType") == "List" else None


def _managed(extender: Mapping[str, t.Any]) -> Iterator[Mapping[str, t.Any]]:
    return map(mapping_of, list_of(extender.get("managedResources")))


def _unknown(scoring: list[Mapping[str, t.Any]], plugins: EnabledPlugins, known: KnownPlugins) -> Iterator[Reason]:
    """Yield the reasons why no score of the profile is known."""
    enabled = {point: {name for name, _weight in plugins.at(point)} for point in ("preFilter", "preScore", "score")}
    if any(not list_of(extender.get("managedResources")) for extender in scoring):
        yield _EXTENDER
    for name in sorted(known.out_of_tree & (enabled["preScore"] | enabled["score"])):
        yield Reason("foreign_plugin", f"the plugin {name} of the scheduler is not one of Kubernetes, and may score nodes")
    for name in sorted(enabled["score"].intersection(NEED_PRE_SCORE) - enabled["preScore"]):
        yield Reason("plugin_without_pre_score", f"the plugin {name} of the scheduler scores nodes, and its PreScore is disabled")
    if "DynamicResources" in enabled["score"] - enabled["preFilter"]:
        yield Reason("plugin_without_pre_filter", "the plugin DynamicResources of the scheduler scores nodes without its PreFilter")
