# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files from own profiles, extenders and sources, and the mistakes in the variables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.second_scheduler.requested import PROMETHEUS, files

SCORES = {"prioritizeVerb": "prioritize", "weight": 5}


def extender(profiles: dict[str, list[str]], *entries: dict[str, Any], **settings: Any) -> dict[str, Any]:
    content = {name: {"agents": [{"name": agent} for agent in agents]} for name, agents in profiles.items()}
    return {"settings": {"profiles": content, **settings}, "entries": list(entries) or [SCORES]}


def test_several_profiles_with_different_policies_have_one_extender() -> None:
    profiles = [{"schedulerName": "quiet", "percentageOfNodesToScore": 100}, {"schedulerName": "balanced"}]
    made = files(profiles=profiles, extenders=[extender({"quiet": ["network_traffic"], "balanced": ["pigeon"]})])
    assert made["mistakes"] == [] and made["profiles"] == ["quiet", "balanced"]
    assert made["scheduler"]["profiles"] == profiles and len(made["scheduler"]["extenders"]) == len(made["extenders"]) == 1
    assert made["scheduler"]["extenders"][0] == {
        "urlPrefix": "http://127.0.0.1:5401/scheduler", "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "200ms", **SCORES
    }  # fmt: skip
    assert made["extenders"][0]["settings"]["sources"] == {"kubernetes": {}, "node_exporter": {"port": 9100}}


def test_a_preset_counts_for_each_profile() -> None:
    made = files(profiles=[{"schedulerName": "a"}, {"schedulerName": "b"}])
    assert list(made["extenders"][0]["settings"]["profiles"]) == ["a", "b"]


def test_two_entries_of_one_extender_have_one_port() -> None:
    preempts = {"preemptVerb": "preempt", "ignorable": False, "httpTimeout": "2s"}
    made = files(extenders=[extender({"*": ["network_traffic", "budgets"]}, SCORES, preempts)])
    assert made["mistakes"] == [] and len({entry["urlPrefix"] for entry in made["scheduler"]["extenders"]}) == 1
    assert made["scheduler"]["extenders"][1]["ignorable"] is False and made["scheduler"]["extenders"][1]["httpTimeout"] == "2s"


def test_the_leader_has_a_lease_of_its_own() -> None:
    leader = files()["scheduler"]["leaderElection"]
    assert leader["leaderElect"] and (leader["resourceNamespace"], leader["resourceName"]) == ("kube-system", "kube-scheduling-scheduler")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {"kubernetes": {}, "node_exporter": {"port": 9100}}),
        ({"prometheus_urls": PROMETHEUS}, {"kubernetes": {}, "prometheus": {"urls": PROMETHEUS}}),
        (
            {"prometheus_urls": PROMETHEUS, "sources": {"prometheus": {"selector": 'job="node"'}}},
            {"kubernetes": {}, "prometheus": {"urls": PROMETHEUS, "selector": 'job="node"'}},
        ),
        ({"sources": {"node_exporter": {"scheme": "https"}}}, {"kubernetes": {}, "node_exporter": {"port": 9100, "scheme": "https"}}),
        ({"sources": {"prometheus": {"urls": PROMETHEUS}}}, {"kubernetes": {}, "prometheus": {"urls": PROMETHEUS}}),
        ({"preset": "pigeon"}, {"kubernetes": {}}),
    ],
)
def test_sources_of_a_preset(variables: dict[str, Any], expected: dict[str, Any]) -> None:
    made = files(**variables)
    assert made["mistakes"] == [] and made["extenders"][0]["settings"]["sources"] == expected
    assert made["scrapes_nodes"] is ("node_exporter" in expected)


def test_arguments_of_the_agents_of_a_preset() -> None:
    made = files(agent_args={"network_traffic": {"device": "bond0", "window": "2m"}})
    (agent,) = made["extenders"][0]["settings"]["profiles"]["network-traffic"]["agents"]
    assert agent == {"name": "network_traffic", "args": {"device": "bond0", "window": "2m"}}


def test_only_a_learning_agent_learns() -> None:
    assert files(preset="reward")["learns"] and not files()["learns"]
    assert files(extenders=[extender({"*": ["own"]})], learning_agents=["own"])["learns"]


P = "extended_scheduler_"


@pytest.mark.parametrize(
    ("variables", "mistake"),
    [
        ({"preset": "safe"}, f"{P}preset is safe, which needs Prometheus: set {P}prometheus_urls"),
        ({"profile_name": "default-scheduler"}, f"{P}profile_name has default-scheduler, "),
        ({"profile_name": ""}, f"{P}profile_name: a profile has no name: set it to the name that pods have"),
        ({"profiles": [{"schedulerName": "a"}] * 2}, f"{P}profiles has the schedulerName a twice"),
        ({"profiles": [{"schedulerNam": "a"}]}, f"{P}profiles[0] has the unknown field schedulerNam; the nearest is schedulerName"),
        (
            {"profiles": [{"schedulerName": "a", "z": 1}]},
            f"{P}profiles[0] has the unknown field z: use schedulerName, percentageOfNodesToScore",
        ),
        ({"agent_args": {"network_trafic": {}}}, f"{P}agent_args has network_trafic, and the preset network_traffic has no such agent"),
        ({"http_timeout": "200"}, f"{P}http_timeout is 200: "),
        ({"http_timeout": "0s"}, f"{P}http_timeout is 0s: "),
        ({"http_timeout": "-1s"}, f"{P}http_timeout is -1s: "),
        ({"namespaces": "a b"}, f"{P}namespaces is a b: write the key of a label"),
        ({"namespaces": "x", "profile_name": "y" * 64}, "which has at most 63 characters"),
        ({"extenders": [{"settings": {}}]}, f"{P}extenders[0].settings has no profiles"),
        ({"extenders": [{"settings": 3}]}, f"{P}extenders[0].settings is no dictionary"),
        ({"extenders": [{"settings": {"profiles": {}}, "entries": [3]}]}, f"{P}extenders[0].entries is no list of dictionaries"),
        ({"extenders": [{"settings": {"profiles": {}}}]}, f"{P}extenders[0] has no entries"),
        ({"extenders": [extender({"*": ["reward"]})] * 2}, "extender-1 and extender-2 have learning agents"),
        ({"extenders": [extender({"other": ["pigeon"]})]}, f"{P}extenders[0].settings has the profile other, which the scheduler does not"),
        ({"extenders": [extender({"*": ["pigeon"]}, {**SCORES, "weight": 0})]}, "entries[0] has prioritizeVerb and no weight"),
        ({"extenders": [extender({"*": ["pigeon"]}, {"weight": 1})]}, "entries[0] has no verb"),
        ({"extenders": [extender({"*": ["pigeon"]}, {**SCORES, "bindVerb": "bind"})]}, "entries[0] has bindVerb: remove it"),
        ({"extenders": [extender({"*": ["pigeon"]}, {**SCORES, "urlPrefix": "x"})]}, "entries[0] has urlPrefix: remove it"),
        ({"extenders": [extender({"*": ["pigeon"]}, {"filterVerb": "filter"})]}, "entries[0] has filterVerb and no preemptVerb"),
        ({"extenders": [extender({"*": ["pigeon"]}, {**SCORES, "httpTimeout": 2})]}, "entries[0] has httpTimeout 2: write it"),
        ({"extenders": [extender({"*": ["pigeon"]})] * 21}, f"{P}extenders has 21 entries"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(variables: dict[str, Any], mistake: str) -> None:
    found = files(**variables)["mistakes"]
    assert any(mistake in text for text in found) and all(": " in text or "; the nearest is " in text for text in found), found


@pytest.mark.parametrize(
    "variables",
    [
        {"preset": "x"},
        {"weights": 3},
        {"profiles": "a"},
        {"profiles": ["a"]},
        {"extenders": {}, "sources": []},
        {"node_exporter_port": "x"},
    ],
)
def test_a_wrong_type_is_for_the_argument_spec_to_name(variables: dict[str, Any]) -> None:
    assert files(**variables)["mistakes"] == []


@pytest.mark.parametrize(
    ("profile", "sentence"),
    [
        (
            {"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}},
            "extended_scheduler_profiles: kube-scheduler would refuse profiles[0].plugins.score.enabled[0]",
        ),
        (
            {"percentageOfNodesToScore": 101},
            "extended_scheduler_profiles: kube-scheduler would refuse profiles[0].percentageOfNodesToScore: 101 is not a percentage",
        ),
    ],
)
def test_what_kube_scheduler_would_refuse_is_a_mistake(profile: dict[str, Any], sentence: str) -> None:
    (mistake,) = files(profiles=[{"schedulerName": "quiet", **profile}])["mistakes"]
    assert mistake.startswith(sentence)


def test_a_plugin_that_is_not_in_kubernetes_has_to_be_named() -> None:
    profiles = [{"schedulerName": "quiet", "plugins": {"score": {"enabled": [{"name": "Mine", "weight": 2}]}}}]
    (mistake,) = files(profiles=profiles)["mistakes"]
    assert mistake.endswith("add it to extended_scheduler_known_plugins if this kube-scheduler has it")
    assert files(profiles=profiles, known_plugins=["Other"])["mistakes"] == [mistake]
    assert files(profiles=profiles, known_plugins=["Mine"])["mistakes"] == []


def test_the_scheduler_of_the_cluster_keeps_its_leader_election_and_its_extender_has_no_open_port() -> None:
    made = files(shape="kubeadm")
    assert made["mistakes"] == [] and "leaderElection" not in made["scheduler"]
    (extender,) = made["extenders"]
    assert (extender["settings"]["listen"], extender["settings"]["status_address"]) == ("127.0.0.1:5401", "127.0.0.1:5501")


def test_a_second_scheduler_on_a_host_has_its_own_lease_and_a_kubeconfig_beside_its_configuration() -> None:
    made = files(shape="systemd")
    assert made["mistakes"] == [] and made["scheduler"]["leaderElection"] == files()["scheduler"]["leaderElection"]
    assert made["scheduler"]["clientConnection"] == {"kubeconfig": "kubeconfig"} and "clientConnection" not in files()["scheduler"]
    (extender,) = made["extenders"]
    assert extender["settings"]["status_address"] == "127.0.0.1:5501"
    assert files(shape="systemd", profile_name="default-scheduler")["mistakes"] != []


def test_the_scheduler_of_the_cluster_may_give_its_default_profile_the_scores() -> None:
    assert files(shape="kubeadm", profile_name="default-scheduler")["mistakes"] == []


def test_a_source_with_the_name_of_a_service_is_a_mistake_only_with_the_network_of_a_host() -> None:
    urls = ["http://prometheus.monitoring.svc:9090", "https://10.0.0.4/", "http://prometheus.example.org"]
    assert files(prometheus_urls=urls)["mistakes"] == []
    assert len(files(shape="systemd", prometheus_urls=urls)["mistakes"]) == 1
    made = files(shape="kubeadm", prometheus_urls=urls)
    assert made["source_hosts"] == ["10.0.0.4", "prometheus.example.org", "prometheus.monitoring.svc"]
    (mistake,) = made["mistakes"]
    assert mistake.startswith("a source has prometheus.monitoring.svc, the name of a Service, ")
