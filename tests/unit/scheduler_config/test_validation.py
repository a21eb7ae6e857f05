# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule for a configuration: its problem has the path of the field, and a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import (
    HARMFUL,
    INVALID,
    NEEDS_GATE,
    UNKNOWN_FIELD,
    UNSAFE,
    Problem,
    problems_text,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.validation import config_problems
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import ConfigTarget

from tests.unit.scheduler_config.configurations import EXTENDER, NEWEST, Json, arguments, configuration, plugins, profile

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]


def problems(config: Json, target: ConfigTarget = NEWEST, *known: str) -> list[tuple[str, str]]:
    return [(problem.path, problem.kind) for problem in config_problems(config, target, frozenset(known))]


@pytest.mark.parametrize(
    "config",
    [
        configuration(),
        configuration(profiles=[{}]),
        configuration(profiles=None, extenders=None, leaderElection=None),
        configuration(profiles=[profile(), profile("network-traffic", percentageOfNodesToScore=0)], extenders=[EXTENDER]),
        configuration(profiles=[profile(plugins=plugins("score", "NodeResourcesFit", disabled=("*",)))]),
        configuration(profiles=[profile(plugins=plugins("multiPoint", "DefaultBinder", "PrioritySort", disabled=("*",)))]),
        configuration(profiles=[profile(plugins=plugins("multiPoint", "NodeAffinity"))]),
        configuration(profiles=[profile(plugins=plugins("queueSort", "PrioritySort"))]),
        configuration(profiles=[profile(pluginConfig=arguments("NodeResourcesFit", scoringStrategy={"type": "MostAllocated"}))]),
        configuration(profiles=[profile(pluginConfig=arguments("PodTopologySpread", defaultingType="List"))]),
        configuration(leaderElection={"leaderElect": False, "leaseDuration": "1s", "resourceLock": "endpoints"}),
        configuration(leaderElection={"leaseDuration": "0s"}, parallelism=16.0, clientConnection={"qps": 0.5}),
        configuration(extenders=[{**EXTENDER, "tlsConfig": {"caData": "LS0t", "serverName": "x"}, "enableHTTPS": True}]),
    ],
)
def test_valid_configurations_have_no_problem(config: Json) -> None:
    assert problems(config) == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": "16"}, "parallelism"),
        ({"parallelism": 1.5}, "parallelism"),
        ({"parallelism": True}, "parallelism"),
        ({"parallelism": 2**31}, "parallelism"),
        ({"enableProfiling": "yes"}, "enableProfiling"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds"),
        ({"podMaxBackoffSeconds": 5, "podInitialBackoffSeconds": 6}, "podMaxBackoffSeconds"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst"),
        ({"clientConnection": {"kubeconfig": 5}}, "clientConnection.kubeconfig"),
        ({"clientConnection": ["x"]}, "clientConnection"),
        ({"profiles": {"schedulerName": "a"}}, "profiles"),
        ({"leaderElection": {"leaseDuration": 15}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"leaseDuration": "5s"}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"retryPeriod": "-1s"}}, "leaderElection.retryPeriod"),
        ({"leaderElection": {"resourceLock": "configmaps"}}, "leaderElection.resourceLock"),
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "apiVersion"),
        ({"kind": "Policy"}, "kind"),
    ],
)
def test_wrong_global_fields(fields: Json, path: str) -> None:
    assert problems(configuration(**fields)) == [(path, INVALID)]


@pytest.mark.parametrize(
    ("profiles", "path"),
    [
        ([profile("a"), profile("a")], "profiles[1].schedulerName"),
        ([profile("a"), {}], "profiles[1].schedulerName"),
        ([profile("")], "profiles[0].schedulerName"),
        ([profile(percentageOfNodesToScore=-1)], "profiles[0].percentageOfNodesToScore"),
        ([profile("a"), profile("b", plugins=plugins("queueSort", "PrioritySort"))], "profiles[1].plugins.queueSort"),
        ([profile(plugins=plugins("score", "Nonexistent"))], "profiles[0].plugins.score.enabled[0]"),
        ([profile(plugins=plugins("score", "*"))], "profiles[0].plugins.score.enabled[0]"),
        ([profile(plugins=plugins("score", "NodeName"))], "profiles[0].plugins.score.enabled[0]"),
        ([profile(plugins=plugins("score", "NodeAffinity", "NodeAffinity"))], "profiles[0].plugins.score"),
        ([profile(plugins=plugins("queueSort", disabled=("*",)))], "profiles[0].plugins.queueSort"),
        ([profile(plugins=plugins("multiPoint", disabled=("DefaultBinder",)))], "profiles[0].plugins.bind"),
        ([profile(pluginConfig=[*arguments("NodeAffinity"), *arguments("NodeAffinity")])], "profiles[0].pluginConfig[1]"),
        ([profile(pluginConfig=arguments("EBSLimits"))], "profiles[0].pluginConfig[0]"),
        ([profile(pluginConfig=[{"name": "NodeAffinity", "args": []}])], "profiles[0].pluginConfig[0].args"),
        ([profile(pluginConfig=arguments("NodeAffinity", kind="NodeNameArgs"))], "profiles[0].pluginConfig[0].args.kind"),
        ([profile("a", pluginConfig=arguments("PrioritySort", x=1)), profile("b")], "profiles[1].pluginConfig"),
    ],
)
def test_wrong_profiles(profiles: list[Json], path: str) -> None:
    assert problems(configuration(profiles=profiles)) == [(path, INVALID)]


@pytest.mark.parametrize(
    ("plugin", "args", "path"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": 0, "minCandidateNodesPercentage": 0}, "minCandidateNodesPercentage"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "resources[1].name"),
        ("NodeResourcesFit", {"ignoredResources": ["a b"]}, "ignoredResources[0]"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]"),
        ("NodeResourcesFit", {"scoringStrategy": {}}, "scoringStrategy.type"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "scoringStrategy.requestedToCapacityRatio"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "LeastAllocated", "requestedToCapacityRatio": {"shape": SHAPE}}},
            "scoringStrategy.requestedToCapacityRatio",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE[::-1]}}},
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        ),
        ("PodTopologySpread", {"defaultingType": "Lists"}, "defaultingType"),
        ("PodTopologySpread", {"defaultConstraints": [{}], "defaultingType": "List"}, "defaultConstraints[0].maxSkew"),
        ("NodeAffinity", {"addedAffinity": {"preferred": 1}}, "addedAffinity.preferred"),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        ("VolumeBinding", {"shape": SHAPE}, "shape"),
        ("DynamicResources", {"bindingTimeout": "1ms"}, "bindingTimeout"),
    ],
)
def test_wrong_arguments_of_plugins(plugin: str, args: Json, path: str) -> None:
    found = problems(configuration(profiles=[profile(pluginConfig=arguments(plugin, **args))]))
    assert found and found[0][0] == f"profiles[0].pluginConfig[0].args.{path}"


def expression(**fields: Any) -> Json:
    return {"key": "rack", "operator": "In", "values": ["a"], **fields}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (expression(key="a b"), "key"),
        (expression(operator="Is"), "operator"),
        (expression(values=[]), "values"),
        (expression(values=["a b"]), "values"),
        (expression(operator="Exists"), "values"),
        (expression(operator="Gt"), "values"),
    ],
)
def test_wrong_node_selectors(wrong: Json, path: str) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [wrong]}]}}
    found = problems(configuration(profiles=[profile(pluginConfig=arguments("NodeAffinity", addedAffinity=required))]))
    assert [one.rpartition("matchExpressions[0].")[2] for one, _kind in found] == [path]


@pytest.mark.parametrize(
    ("extenders", "path", "kind"),
    [
        ([{**EXTENDER, "weight": 0}], "extenders[0].weight", INVALID),
        ([{**EXTENDER, "urlPrefix": ""}], "extenders[0].urlPrefix", UNSAFE),
        ([{**EXTENDER, "urlPrefix": "127.0.0.1:80"}], "extenders[0].urlPrefix", UNSAFE),
        ([{**EXTENDER, "httpTimeout": "-1s"}], "extenders[0].httpTimeout", UNSAFE),
        ([{**EXTENDER, "httpTimeout": 5}], "extenders[0].httpTimeout", INVALID),
        ([EXTENDER, EXTENDER], "extenders[1].urlPrefix", UNSAFE),
        ([{**EXTENDER, "bindVerb": "b"}, {**EXTENDER, "bindVerb": "b", "urlPrefix": "http://b"}], "extenders", INVALID),
        ([{**EXTENDER, "managedResources": [{"name": "cpu"}]}], "extenders[0].managedResources[0].name", INVALID),
        ([{**EXTENDER, "managedResources": [{"name": "a.b/c"}, {"name": "a.b/c"}]}], "extenders[0].managedResources[1].name", INVALID),
        ([{**EXTENDER, "tlsConfig": {"insecure": True, "caFile": "/ca"}}], "extenders[0].tlsConfig.insecure", INVALID),
        ([{**EXTENDER, "tlsConfig": {"caData": "?"}}], "extenders[0].tlsConfig.caData", INVALID),
        ([{**EXTENDER, "nodeCacheCapabel": True}], "extenders[0].nodeCacheCapabel", UNKNOWN_FIELD),
    ],
)
def test_wrong_extenders(extenders: list[Json], path: str, kind: str) -> None:
    assert problems(configuration(extenders=extenders)) == [(path, kind)]


def test_a_renew_deadline_that_the_leader_elector_refuses_is_unsafe() -> None:
    election = {"leaseDuration": "15s", "renewDeadline": "2s", "retryPeriod": "2s"}
    assert problems(configuration(leaderElection=election)) == [("leaderElection.renewDeadline", UNSAFE)]


def test_an_extender_that_ignores_resources_needs_the_arguments_of_the_resource_plugin() -> None:
    extenders = [{**EXTENDER, "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}]
    without = profile(plugins=plugins("multiPoint", disabled=("NodeResourcesFit",)))
    assert problems(configuration(extenders=extenders, profiles=[without])) == [("profiles[0].pluginConfig", INVALID)]
    assert problems(configuration(extenders=extenders)) == []


def test_a_plugin_of_known_plugins_can_be_enabled_at_every_extension_point() -> None:
    sets = {**plugins("score", "NetworkTraffic"), **plugins("multiPoint", "Coscheduling")}
    config = configuration(profiles=[profile(plugins=sets, pluginConfig=arguments("NetworkTraffic", ip="http://10.0.0.4:9090"))])
    assert problems(config, NEWEST, "NetworkTraffic", "Coscheduling") == []
    assert [path for path, _kind in problems(config)] == [
        "profiles[0].plugins.score.enabled[0]",
        "profiles[0].plugins.multiPoint.enabled[0]",
        "profiles[0].pluginConfig[0]",
    ]


def test_an_unknown_plugin_that_is_only_disabled_or_configured_is_a_warning() -> None:
    config = configuration(profiles=[profile(plugins=plugins("score", disabled=("Gone",)), pluginConfig=arguments("Gone2"))])
    assert problems(config) == [("profiles[0].plugins.score.disabled", HARMFUL), ("profiles[0].pluginConfig[0]", HARMFUL)]


def test_plugins_are_those_of_the_version() -> None:
    config = configuration(profiles=[profile(plugins=plugins("permit", "GangScheduling"))])
    assert problems(config) == []
    assert problems(config, ConfigTarget("v1", 30)) == [("profiles[0].plugins.permit.enabled[0]", INVALID)]


def test_fields_are_those_of_the_version() -> None:
    config = configuration(profiles=[profile(plugins=plugins("placementScore", "PodGroupPodsCount"))])
    assert problems(config) == []
    assert ("profiles[0].plugins.placementScore", UNKNOWN_FIELD) in problems(config, ConfigTarget("v1", 30))


def test_a_field_that_needs_a_feature_gate_is_a_warning() -> None:
    config = configuration(profiles=[profile(pluginConfig=arguments("VolumeBinding", shape=SHAPE))])
    assert problems(config) == [("profiles[0].pluginConfig[0].args.shape", NEEDS_GATE)]


@pytest.mark.parametrize(("minor", "expected"), [(35, NEEDS_GATE), (36, None), (None, None)])
def test_a_feature_gate_that_is_on_by_default_since_a_version_is_needed_before(minor: int | None, expected: str | None) -> None:
    config = configuration(profiles=[profile(pluginConfig=arguments("DynamicResources", bindingTimeout="600s"))])
    found = problems(config, ConfigTarget("v1", minor))
    assert found == ([("profiles[0].pluginConfig[0].args.bindingTimeout", expected)] if expected else [])


def test_plugins_of_a_version_without_tables_are_not_checked() -> None:
    config = {
        **configuration(profiles=[profile(plugins=plugins("score", "SelectorSpread"))]),
        "apiVersion": "kubescheduler.config.k8s.io/v1beta3",
    }
    assert problems(config, ConfigTarget("v1beta3", 24)) == []


def test_the_nearest_field_is_in_the_remedy() -> None:
    (found,) = config_problems(configuration(profiles=[{"schedulername": "a"}]), NEWEST)
    assert str(found).startswith("profiles[0].schedulername: ") and str(found).endswith("; the nearest is schedulerName")


def test_a_value_that_may_be_a_password_is_not_shown() -> None:
    (found,) = config_problems(configuration(parallelism="http://user:secret@host"), NEWEST)
    assert "secret" not in str(found)


def test_many_problems_are_shortened() -> None:
    text = problems_text(Problem(f"a[{number}]", "wrong", "correct it") for number in range(15))
    assert len(text.splitlines()) == 11 and text.endswith("and 5 more")
