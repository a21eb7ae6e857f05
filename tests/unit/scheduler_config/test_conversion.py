# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configurations in another API version: nothing is lost, or the parts that would be lost are named."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.conversion import convert_config
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import SERVED, ConfigTarget, full_name

from tests.unit.scheduler_config.configurations import EXTENDER, NEWEST, Json, arguments, configuration, plugins, profile

WEIGHTS = {"score": {"enabled": [{"name": name, "weight": 1} for name in ("InterPodAffinity", "NodeAffinity", "TaintToleration")]}}


def of_version(version: str, **fields: object) -> Json:
    return {**configuration(**fields), "apiVersion": full_name(version)}


def converted(config: Json, target: ConfigTarget = NEWEST) -> tuple[Json, list[str]]:
    """Convert. What was given must not change, and a second conversion must change nothing."""
    given = copy.deepcopy(config)
    found, notes = convert_config(config, target)
    assert config == given and convert_config(found, target) == (found, [])
    return found, notes


@pytest.mark.parametrize("version", SERVED)
def test_what_all_versions_have_is_kept(version: str) -> None:
    fields = {"profiles": [profile("a", plugins=WEIGHTS)], "extenders": [EXTENDER], "clientConnection": {"qps": 5}, "parallelism": 8}
    assert converted(of_version(version, **fields)) == (configuration(**fields), [])


def test_other_default_weights_are_noted_for_each_profile_that_has_them() -> None:
    profiles = [profile("a"), profile("b", plugins=WEIGHTS), profile("c", plugins=plugins("score", disabled=("*",)))]
    found, notes = converted(of_version("v1beta2", profiles=profiles))
    assert found == configuration(profiles=profiles)
    assert len(notes) == 1 and notes[0].startswith("profiles[0]: ") and notes[0].endswith(" (converted from v1beta2 to v1)")
    assert ": InterPodAffinity 1 to 2, NodeAffinity 1 to 2, TaintToleration 1 to 3; " in notes[0]


def test_the_versions_of_arguments_are_converted_too() -> None:
    args = {"apiVersion": full_name("v1beta3"), "kind": "NodeAffinityArgs"}
    found, _notes = converted(of_version("v1beta3", profiles=[profile(pluginConfig=arguments("NodeAffinity", **args))]))
    assert found["profiles"][0]["pluginConfig"][0]["args"]["apiVersion"] == full_name("v1")


def test_addresses_that_are_not_served_any_more_are_removed_with_a_note() -> None:
    found, notes = converted(
        of_version("v1beta2", profiles=[profile(plugins=WEIGHTS)], healthzBindAddress="0.0.0.0:10251", metricsBindAddress="")
    )
    assert found == configuration(profiles=[profile(plugins=WEIGHTS)])
    assert len(notes) == 1 and notes[0].startswith("healthzBindAddress: it is removed;")


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
@pytest.mark.parametrize("fields", [{"plugins": plugins("score", "SelectorSpread")}, {"pluginConfig": arguments("SelectorSpread")}])
def test_a_plugin_that_the_newer_version_lacks_is_named(version: str, fields: Json) -> None:
    text = rf"profiles\[0\]\.plugin.*does not have the plugin SelectorSpread: use PodTopologySpread.*api_version to {version}"
    with pytest.raises(SchedulerConfigError, match=text):
        converted(of_version(version, profiles=[profile(**fields)]))


def test_a_removed_plugin_that_is_only_disabled_is_not_listed_any_more() -> None:
    old = of_version("v1beta2", profiles=[profile(plugins=plugins("score", disabled=("SelectorSpread", "ImageLocality")))])
    found, _notes = converted(old)
    assert found["profiles"][0]["plugins"]["score"]["disabled"] == [{"name": "ImageLocality"}]


@pytest.mark.parametrize(
    ("fields", "target", "path"),
    [
        ({"profiles": [profile(percentageOfNodesToScore=5)]}, ConfigTarget("v1beta3", 27), r"profiles\[0\].percentageOfNodesToScore"),
        ({"delayCacheUntilActive": True}, ConfigTarget("v1beta3", 28), "delayCacheUntilActive"),
        (
            {"profiles": [profile(plugins=plugins("multiPoint", "NodeName"))]},
            ConfigTarget("v1beta2", 22),
            r"profiles\[0\].plugins.multiPoint",
        ),
    ],
)
def test_a_field_that_the_older_version_lacks_is_named(fields: Json, target: ConfigTarget, path: str) -> None:
    with pytest.raises(SchedulerConfigError, match=f"{path}: {target.api_version} .* does not have the field"):
        converted(configuration(**fields), target)


def test_an_older_version_is_written_if_it_has_everything() -> None:
    fields = {"profiles": [profile(plugins={**WEIGHTS, **plugins("multiPoint", "NodeName")})], "unknown": 1}
    found, notes = converted(configuration(**fields), ConfigTarget("v1beta2", 24))
    assert found == of_version("v1beta2", **fields) and notes == []
