# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Legal settings that are probably not intended are warned of."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.harmful_settings import harmful_settings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.presets import PRESETS

from tests.unit.scheduler_config.configurations import EXTENDER, NEWEST, Json, configuration, plugins, profile

PRESET_EXTENDERS = [one for kinds in PRESETS.values() for preset in kinds.values() for one in preset if one.weight]


def warned(config: Json) -> list[str]:
    return [problem.path for problem in harmful_settings(config, NEWEST)]


@pytest.mark.parametrize(
    "config",
    [
        configuration(),
        configuration(profiles=[profile(), profile("a")], extenders=[EXTENDER]),
        configuration(extenders=[{**EXTENDER, "ignorable": False, "weight": 15}]),
        *(configuration(extenders=[{**EXTENDER, "weight": one.weight}]) for one in PRESET_EXTENDERS),
        configuration(extenders=[{**EXTENDER, "filterVerb": "filter", "preemptVerb": "preempt"}]),
        configuration(extenders=[{**EXTENDER, "enableHTTPS": True, "tlsConfig": {"caFile": "/ca"}}]),
        configuration(profiles=[profile("a")], leaderElection={"leaderElect": False}),
        configuration(profiles=[profile("a")], leaderElection={"resourceName": "a"}),
        configuration(profiles=[profile(plugins=plugins("score", "NodeAffinity", disabled=("*",)))]),
    ],
)
def test_ordinary_settings_are_not(config: Json) -> None:
    assert warned(config) == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"filterVerb": "filter"}, "filterVerb"),
        ({"weight": 16}, "weight"),
        ({"nodeCacheCapable": False}, "nodeCacheCapable"),
        ({"enableHTTPS": True}, "enableHTTPS"),
        ({"enableHTTPS": True, "tlsConfig": {"insecure": True}}, "enableHTTPS"),
        ({"ignorable": False, "preemptVerb": "preempt"}, "ignorable"),
        ({"httpTimeout": "2s"}, "httpTimeout"),
        ({"httpTimeout": "0s"}, "httpTimeout"),
    ],
)
def test_each_harmful_setting_of_an_extender(fields: Json, path: str) -> None:
    assert warned(configuration(extenders=[{**EXTENDER, **fields}])) == [f"extenders[0].{path}"]


def test_the_weight_is_compared_with_all_plugins_that_the_profile_scores_by() -> None:
    only = profile(plugins=plugins("score", "NodeAffinity", disabled=("*",)))
    config = configuration(profiles=[only], leaderElection={"leaderElect": False}, extenders=[{**EXTENDER, "weight": 5}])
    (found,) = harmful_settings(config, NEWEST)
    assert "adds up to 500 to the score of a node, and all plugins of a profile together add at most 100; set it to 1" in str(found)


def test_the_bug_of_the_resource_plugins_is_named() -> None:
    (found,) = harmful_settings(
        configuration(extenders=[{**EXTENDER, "filterVerb": "f", "preemptVerb": "p", "nodeCacheCapable": False}]), NEWEST
    )
    assert "kubernetes#141781" in str(found)


def test_an_extender_without_verbs_is_never_called() -> None:
    assert warned(configuration(extenders=[{"urlPrefix": "http://a", "httpTimeout": "9s"}])) == ["extenders[0]"]


@pytest.mark.parametrize(
    "sets", [plugins("score", disabled=("*",)), plugins("multiPoint", "PrioritySort", "DefaultBinder", disabled=("*",))]
)
def test_a_profile_without_default_score_plugins(sets: Json) -> None:
    assert warned(configuration(profiles=[profile(plugins=sets)])) == ["profiles[0].plugins.score"]


def test_a_second_scheduler_with_the_lease_of_the_first_one() -> None:
    (found,) = harmful_settings(configuration(profiles=[profile("network-traffic")]), NEWEST)
    assert found.path == "leaderElection.resourceName" and "network-traffic" in found.remedy
