# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profiles of a configuration, as far as they decide on which nodes a pod can run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILE, SchedulerProfile
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.score_settings import DEFAULT_SCORES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import GROUP

from tests.unit.scheduler_config.configurations import EXTENDER, Json, arguments, configuration, plugins, profile

TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
HARD = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SOFT = {**HARD, "whenUnsatisfiable": "ScheduleAnyway"}
GPU = {"name": "example.com/gpu", "ignoredByScheduler": True}


def only(**fields: Any) -> SchedulerProfile:
    """Return the one profile of a configuration with these fields of the profile."""
    (found,) = profiles_of(configuration(profiles=[profile(**fields)]), "").values()
    return found


@pytest.mark.parametrize(
    "config",
    [
        configuration(),
        configuration(profiles=None),
        configuration(profiles=[{}]),
        configuration(profiles=[profile(plugins=plugins("score", disabled=("*",)))]),
        configuration(profiles=[profile(pluginConfig=arguments("NodeAffinity", addedAffinity=None))]),
        configuration(profiles=[profile(pluginConfig=arguments("PodTopologySpread", defaultingType="System"))]),
        configuration(extenders=[EXTENDER]),
        {**configuration(), "apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        {**configuration(), "apiVersion": "kubescheduler.config.k8s.io/v1beta2"},
    ],
)
def test_settings_that_reject_no_other_nodes_keep_the_default_profile(config: Json) -> None:
    found = profiles_of(config, "")
    assert {name: replace(one, scores=DEFAULT_SCORES) for name, one in found.items()} == {"default-scheduler": DEFAULT_PROFILE}


@pytest.mark.parametrize(
    ("of_file", "of_profile", "expected"), [(None, None, 0), (30, None, 30), (None, 5, 5), (30, 5, 5), (30, 0, 0), (100, None, 100)]
)
def test_the_share_of_nodes_that_are_scored_is_that_of_the_profile_or_of_the_file(
    of_file: int | None, of_profile: int | None, expected: int
) -> None:
    config = configuration(profiles=[profile() if of_profile is None else profile(percentageOfNodesToScore=of_profile)])
    if of_file is not None:
        config["percentageOfNodesToScore"] = of_file
    (found,) = profiles_of(config, "").values()
    assert found.percentage_of_nodes == expected


def test_each_profile_of_a_file_is_read_and_knows_its_scheduler() -> None:
    found = profiles_of(configuration(profiles=[profile(), profile("quiet", plugins=plugins("filter", disabled=("NodePorts",)))]), "a file")
    assert list(found) == ["default-scheduler", "quiet"]
    assert [found[name].filters_by("NodePorts") for name in found] == [True, False]
    assert {one.scheduler for one in found.values()} == {"a file"}


@pytest.mark.parametrize(
    ("sets", "filters", "pre_filters"),
    [
        (plugins("filter", disabled=("NodeResourcesFit",)), {"NodeResourcesFit"}, set()),
        (plugins("preFilter", disabled=("NodeAffinity",)), set(), {"NodeAffinity"}),
        (plugins("multiPoint", disabled=("NodeAffinity", "NodeName")), {"NodeAffinity", "NodeName"}, {"NodeAffinity"}),
        (plugins("multiPoint", "NodeName", "DefaultBinder", "PrioritySort", disabled=("*",)), None, None),
    ],
)
def test_disabled_plugins_of_each_extension_point_are_known(sets: Json, filters: set[str] | None, pre_filters: set[str] | None) -> None:
    found = only(plugins=sets)
    if filters is None:
        assert found.filters_by("NodeName")
        assert not found.filters_by("TaintToleration")
        assert "NodeAffinity" in found.disabled_pre_filters
        return
    assert found.disabled_filters == filters
    assert found.disabled_pre_filters == pre_filters


@pytest.mark.parametrize(
    ("sets", "preempts"),
    [
        (plugins("postFilter"), True),
        (plugins("postFilter", disabled=("DefaultPreemption",)), False),
        (plugins("multiPoint", disabled=("DefaultPreemption",)), False),
        (plugins("postFilter", "Foreign", disabled=("*",)), True),
    ],
)
def test_a_profile_preempts_if_a_plugin_may_do_it(sets: Json, preempts: bool) -> None:
    assert only(plugins=sets).preempts is preempts


def test_arguments_of_the_filters_are_read() -> None:
    args = arguments("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": TERMS})
    args += arguments("NodeResourcesFit", ignoredResources=["example.com/gpu"], ignoredResourceGroups=["example.org"])
    args += arguments("PodTopologySpread", defaultingType="List", defaultConstraints=[HARD, SOFT])
    found = only(pluginConfig=args)
    assert found.added_affinity is not None
    assert found.added_affinity.node_selector_terms[0].match_expressions[0].values == ("a",)
    assert (found.ignored_resources, found.ignored_resource_groups) == ({"example.com/gpu"}, {"example.org"})
    assert [(one.max_skew, one.topology_key) for one in found.default_constraints] == [(2, "zone")]


def test_resources_that_extenders_ignore_replace_those_of_the_arguments() -> None:
    fit = arguments("NodeResourcesFit", ignoredResources=["example.com/nic"])
    extender = {**EXTENDER, "managedResources": [GPU]}
    (found,) = profiles_of(configuration(profiles=[profile(pluginConfig=fit)], extenders=[extender]), "").values()
    assert found.ignored_resources == {"example.com/gpu"}


@pytest.mark.parametrize(
    ("extender", "codes", "resources"),
    [
        ({"filterVerb": "filter"}, ["depends_on_extender"], set()),
        ({"filterVerb": "filter", "managedResources": [{"name": "example.com/gpu"}]}, [], {"example.com/gpu"}),
        ({"prioritizeVerb": "prioritize", "weight": 1, "managedResources": [{"name": "example.com/gpu"}]}, [], set()),
    ],
)
def test_extender_that_filters_makes_the_result_uncertain(extender: Json, codes: list[str], resources: set[str]) -> None:
    extenders = [{"urlPrefix": "http://127.0.0.1:5401/scheduler", **extender}]
    (found,) = profiles_of(configuration(profiles=[profile()], extenders=extenders), "").values()
    assert ([reason.code for reason in found.unknown], found.extender_resources) == (codes, resources)


@pytest.mark.parametrize(
    ("sets", "codes", "name"),
    [
        (plugins("multiPoint", "Coscheduling"), ["foreign_plugin"], "Coscheduling"),
        (plugins("permit", "Coscheduling"), ["foreign_plugin"], "Coscheduling"),
        (plugins("score", "NetworkTraffic"), [], ""),
        (plugins("filter", disabled=("Coscheduling",)), [], ""),
        (plugins("preFilter", disabled=("NodePorts",)), ["plugin_without_pre_filter"], "NodePorts"),
    ],
)
def test_plugins_whose_filter_is_not_known_make_the_result_uncertain(sets: Json, codes: list[str], name: str) -> None:
    unknown = only(plugins=sets).unknown
    assert [reason.code for reason in unknown] == codes and all(f"the plugin {name} " in reason.text for reason in unknown)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (None, "it is not a KubeSchedulerConfiguration"),
        (["a"], "it is not a KubeSchedulerConfiguration"),
        ({}, "apiVersion: None is not an API version"),
        (configuration(profiles=[profile(), profile()]), "profiles[1].schedulerName: profiles[0] has the same name"),
        (configuration(parallelism=0), "parallelism: 0 is not above 0"),
        (configuration(profiles="x"), "profiles: it is 'x', and a list is expected"),
        ({**configuration(), "apiVersion": f"{GROUP}/v1beta1"}, "kubescheduler.config.k8s.io/v1beta1' is not an API version"),
    ],
)
def test_configuration_that_kube_scheduler_refuses_is_an_error_that_names_the_field(config: Any, text: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        profiles_of(config, "")
    assert text in str(caught.value)
