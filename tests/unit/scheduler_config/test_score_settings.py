# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a profile that decide how nodes are scored."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILE
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import (
    DEFAULT_SCORES,
    ScoreSettings,
    ShapePoint,
    WeightedResource,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of

from tests.unit.scheduler_config.configurations import EXTENDER, Json, arguments, configuration, plugins, profile

ZONE = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
HARD = {**ZONE, "whenUnsatisfiable": "DoNotSchedule"}


def settings(extenders: list[Json] | None = None, **fields: Any) -> ScoreSettings:
    """The settings of a profile with these fields."""
    (found,) = profiles_of(configuration(profiles=[profile(**fields)], extenders=extenders or []), "").values()
    return found.scores


def strategy(**fields: Any) -> ScoreSettings:
    return settings(pluginConfig=arguments("NodeResourcesFit", scoringStrategy=fields))


def test_profile_without_settings_has_the_default_scores() -> None:
    assert settings() == DEFAULT_SCORES == DEFAULT_PROFILE.scores


def test_weights_of_enabled_plugins_are_read() -> None:
    changed = settings(
        plugins={**plugins("score", disabled=("ImageLocality",)), "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 9}]}}
    )
    weights = dict(DEFAULT_SCORES.weights) | {"NodeAffinity": 9}
    del weights["ImageLocality"]
    assert dict(changed.weights) == weights
    none = settings(plugins=plugins("score", disabled=("*",)))
    assert none.weights == ()
    one = settings(plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}})
    assert one.weights == (("NodeResourcesFit", 1),)


def test_strategy_of_node_resources_fit_is_read() -> None:
    most = strategy(type="MostAllocated", resources=[{"name": "cpu", "weight": 3}, {"name": "example.com/gpu"}])
    assert (most.strategy, most.resources) == ("MostAllocated", (WeightedResource("cpu", 3), WeightedResource("example.com/gpu", 1)))
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    ratio = strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})
    assert (ratio.strategy, ratio.shape) == ("RequestedToCapacityRatio", (ShapePoint(0, 0), ShapePoint(100, 10)))
    assert ratio.resources == DEFAULT_SCORES.resources


def test_arguments_of_the_other_plugins_are_read() -> None:
    term = {"weight": 4, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists", "values": None}]}}
    args = arguments("NodeResourcesBalancedAllocation", resources=[{"name": "cpu", "weight": 1}])
    args += arguments("InterPodAffinity", hardPodAffinityWeight=0, ignorePreferredTermsOfExistingPods=True)
    args += arguments("VolumeBinding", shape=[{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}])
    args += arguments("NodeAffinity", addedAffinity={"preferredDuringSchedulingIgnoredDuringExecution": [term]})
    found = settings(pluginConfig=args)
    assert found.balanced_resources == (WeightedResource("cpu"),)
    assert (found.hard_pod_affinity_weight, found.ignores_preferred_terms, found.scores_volumes) == (0, True, True)
    assert [(one.weight, one.preference.match_expressions[0].key) for one in found.added_terms if one.preference.match_expressions] == [
        (4, "disk")
    ]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({}, None),
        ({"defaultingType": "System"}, None),
        ({"defaultingType": "List"}, []),
        ({"defaultingType": "List", "defaultConstraints": [ZONE, HARD]}, [("zone", 2)]),
    ],
)
def test_default_constraints_replace_those_of_kubernetes_only_if_they_are_a_list(
    args: Json, expected: list[tuple[str, int]] | None
) -> None:
    found = settings(pluginConfig=arguments("PodTopologySpread", **args)).default_constraints
    assert (None if found is None else [(one.topology_key, one.max_skew) for one in found]) == expected


SCORES = {**EXTENDER, "prioritizeVerb": "prioritize", "weight": 2}
GPU = [{"name": "example.com/gpu"}]


@pytest.mark.parametrize(
    ("fields", "codes"),
    [
        ({"extenders": [SCORES]}, ["depends_on_extender"]),
        ({"extenders": [{**SCORES, "managedResources": GPU}]}, []),
        ({"extenders": [{"urlPrefix": EXTENDER["urlPrefix"], "filterVerb": "filter"}]}, []),
        ({"plugins": plugins("score", "NetworkTraffic")}, ["foreign_plugin"]),
        ({"plugins": plugins("multiPoint", "Coscheduling")}, ["foreign_plugin"]),
        ({"plugins": plugins("filter", "Coscheduling")}, []),
        ({"plugins": plugins("preScore", disabled=("TaintToleration", "NodeAffinity"))}, ["plugin_without_pre_score"]),
        ({"plugins": plugins("preFilter", disabled=("DynamicResources",))}, ["plugin_without_pre_filter"]),
    ],
)
def test_scores_that_are_not_computed_make_the_settings_unknown(fields: Json, codes: list[str]) -> None:
    found = settings(**fields)
    assert [reason.code for reason in found.unknown] == codes
    assert found.extender_resources == (
        {"example.com/gpu"} if GPU in [one.get("managedResources") for one in fields.get("extenders", ())] else set()
    )
