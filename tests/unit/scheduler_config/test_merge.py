# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile, extenders and settings added to, changed in and removed from a configuration."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.merge import Merged, ProfileChange, merge
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import ConfigTarget

from tests.unit.scheduler_config.configurations import EXTENDER, NEWEST, Json, arguments, configuration, plugins, profile

OTHER = {**EXTENDER, "urlPrefix": "http://127.0.0.1:5401"}


def merged(before: Json | None, target: ConfigTarget = NEWEST, **change: Any) -> Merged:
    """Return the result. It must not change what it was given, and a second run must change nothing."""
    given = copy.deepcopy(before)
    found = merge(before, ProfileChange(**change), target)
    assert before == given
    assert merge(found.config, ProfileChange(**change), target).config == found.config
    return found


def test_a_new_configuration_of_the_cluster_keeps_the_default_scheduler() -> None:
    assert merged(None, name="a").config == configuration(profiles=[profile(), profile("a")])
    lease = {"resourceName": "kube-scheduler", "leaseDuration": "20s"}
    found = merged(None, name="a", leader_election=lease)
    assert found.config == configuration(profiles=[profile(), profile("a")], leaderElection=lease)


@pytest.mark.parametrize("election", [{"resourceName": "a"}, {"resourceNamespace": "a"}, {"leaderElect": False}])
def test_a_new_configuration_of_a_second_scheduler_has_only_the_profile(election: Json) -> None:
    assert merged(None, name="a", leader_election=election).config == configuration(profiles=[profile("a")], leaderElection=election)
    change = ProfileChange(name="a", leader_election=election)
    found = merge(None, change, NEWEST, runs_without_file=True).config
    assert found == configuration(profiles=[profile(), profile("a")], leaderElection=election)


def test_a_profile_is_added_behind_the_others() -> None:
    before = configuration(profiles=[profile(), profile("a")])
    assert merged(before, name="b").config == configuration(profiles=[profile(), profile("a"), profile("b")])


@pytest.mark.parametrize(
    "before", [configuration(), configuration(profiles=[]), configuration(profiles=None), configuration(profiles=[{}])]
)
def test_the_implied_default_scheduler_is_written_out_before_another_profile(before: Json) -> None:
    assert merged(before, name="a").config == configuration(profiles=[profile(), profile("a")])


def test_a_profile_without_a_name_keeps_its_fields_when_its_name_is_written_out() -> None:
    before = configuration(profiles=[{"plugins": plugins("score", "NodeAffinity")}])
    written = profile(plugins=plugins("score", "NodeAffinity"))
    assert merged(before, name="a").config == configuration(profiles=[written, profile("a")])


def test_a_profile_without_a_name_is_the_default_scheduler() -> None:
    found = merged(configuration(profiles=[{}]), name="default-scheduler", percentage=50)
    assert found.config == configuration(profiles=[{"percentageOfNodesToScore": 50}])


def test_given_fields_replace_those_of_the_profile_and_others_stay() -> None:
    before = configuration(profiles=[profile("a", plugins=plugins("score", "NodeAffinity"), pluginConfig=arguments("NodeAffinity"))])
    found = merged(before, name="a", plugins=plugins("filter", "NodeName"), percentage=20)
    wanted = profile("a", plugins=plugins("filter", "NodeName"), pluginConfig=arguments("NodeAffinity"), percentageOfNodesToScore=20)
    assert found == Merged(configuration(profiles=[wanted]))


def test_an_extender_replaces_the_one_of_its_url_and_others_stay() -> None:
    before = configuration(extenders=[{**EXTENDER, "bindVerb": "bind"}, OTHER])
    assert merged(before, extenders=[{**EXTENDER, "weight": 3}]).config == configuration(extenders=[{**EXTENDER, "weight": 3}, OTHER])
    assert merged(configuration(), extenders=[EXTENDER]).config == configuration(extenders=[EXTENDER])


def test_an_extender_without_a_url_is_refused() -> None:
    with pytest.raises(SchedulerConfigError, match=r"extenders\[1\].urlPrefix: it is missing; add"):
        merged(None, extenders=[EXTENDER, {"filterVerb": "filter"}])


def test_other_fields_of_connection_and_leader_election_stay() -> None:
    before = configuration(clientConnection={"kubeconfig": "/a", "qps": 5}, leaderElection={"resourceName": "a"})
    found = merged(before, client_connection={"kubeconfig": "/b"}, leader_election={"leaderElect": False})
    wanted = {"clientConnection": {"kubeconfig": "/b", "qps": 5}, "leaderElection": {"resourceName": "a", "leaderElect": False}}
    assert found.config == configuration(**wanted)


def test_a_version_without_the_percentage_of_a_profile_gets_it_for_all_profiles() -> None:
    found = merged(configuration(profiles=[profile("a")]), ConfigTarget("v1beta3", 24), name="a", percentage=30)
    assert found.config == configuration(profiles=[profile("a")], percentageOfNodesToScore=30)
    assert len(found.notes) == 1 and "all" in found.notes[0]


def test_a_profile_is_removed_and_the_extenders_stay() -> None:
    before = configuration(profiles=[profile(), profile("a")], extenders=[EXTENDER])
    assert merged(before, name="a", absent=True).config == configuration(profiles=[profile()], extenders=[EXTENDER])


def test_extenders_are_removed_by_their_urls() -> None:
    before = configuration(extenders=[EXTENDER, OTHER])
    assert merged(before, extenders=[{"urlPrefix": EXTENDER["urlPrefix"]}], absent=True).config == configuration(extenders=[OTHER])
    assert merged(before, extenders=[OTHER, EXTENDER], absent=True).config == configuration()


@pytest.mark.parametrize("before", [None, configuration(), configuration(profiles=[profile()])])
def test_the_removal_of_an_absent_profile_changes_nothing(before: Json | None) -> None:
    assert merged(before, name="a", extenders=[EXTENDER], absent=True) == Merged(before)


@pytest.mark.parametrize("profiles", [[profile("a")], [profile(), profile("a")], [{}]])
def test_the_last_profile_and_the_default_scheduler_are_removed_only_by_force(profiles: list[Json]) -> None:
    name = "a" if profiles == [profile("a")] else "default-scheduler"
    with pytest.raises(SchedulerConfigError, match=f"profile {name}: it is not removed, because .* set force to true"):
        merged(configuration(profiles=profiles), name=name, absent=True)
    found = merge(configuration(profiles=profiles), ProfileChange(name=name, absent=True, force=True), NEWEST)
    assert found.config == (configuration(profiles=[profile("a")]) if len(profiles) == 2 else configuration())
    assert bool(found.notes) == (len(profiles) == 1)


def test_the_implied_default_scheduler_cannot_be_removed() -> None:
    with pytest.raises(SchedulerConfigError, match="has it implicitly"):
        merged(configuration(), name="default-scheduler", absent=True, force=True)
