# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The new text for the options of scheduler_profile: conversions, checks and warnings in their order."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_plan import ProfilePlan, command_of, plan_profile

from tests.unit.scheduler_config.configurations import EXTENDER, Json, arguments, configuration, plugins, profile
from tests.unit.scheduler_config.example_configurations import EXAMPLES

PLACE = "the file /config.yaml"
DEFAULTS: Json = {
    **dict.fromkeys(("name", "plugins", "plugin_config", "percentage_of_nodes_to_score", "extenders", "leader_election")),
    **dict.fromkeys(("client_connection", "api_version", "known_plugins")),
    "kubernetes_version": "1.36",
    "state": "present",
    "force": False,
}


def plan(text: str | None, command: list[str] | None = None, **options: Any) -> ProfilePlan:
    """Return the plan. A second run with its text must change nothing."""
    found = plan_profile(text, {**DEFAULTS, **options}, PLACE, command)
    again = plan_profile(found.after, {**DEFAULTS, **options}, PLACE, command)
    assert not again.changed and again.config == found.config
    return found


def text_of(config: Json) -> str:
    return yaml.safe_dump(config, sort_keys=False)


@pytest.mark.parametrize("text", [None, "", "\n"])
def test_a_new_file(text: str | None) -> None:
    found = plan(text, name="a", leader_election={"resourceName": "a"})
    assert found.config == configuration(leaderElection={"resourceName": "a"}, profiles=[profile("a")])
    assert found.after == (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection:\n  resourceName: a\n"
        "profiles:\n- schedulerName: a\n"
    )
    assert found.warnings == []


def test_a_file_of_comments_keeps_them() -> None:
    found = plan("# mine\n", name="default-scheduler")
    assert found.after is not None and found.after.startswith("# mine\napiVersion: ")


def test_the_comments_of_an_existing_file_are_kept() -> None:
    found = plan(text_of(configuration()) + "# end\n", name="a")
    assert found.after == text_of(configuration(profiles=[profile(), profile("a")])) + "# end\n"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_example_takes_another_profile_and_loses_it_again(name: str) -> None:
    example = EXAMPLES[name]
    added = plan(example.text, name="another", kubernetes_version=example.version, known_plugins=example.known_plugins)
    assert added.config is not None and [one["schedulerName"] for one in added.config["profiles"]][-1] == "another"
    removed = plan(added.after, name="another", state="absent", kubernetes_version=example.version, known_plugins=example.known_plugins)
    comments = [line.strip() for line in example.text.splitlines() if line.strip().startswith("#")]
    assert removed.after is not None and [line.strip() for line in removed.after.splitlines() if line.strip().startswith("#")] == comments
    if example.is_newest and "schedulerName: default-scheduler" in example.text:
        assert removed.after == example.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "the file /config.yaml is no YAML .*: line 1"),
        ("kind: Pod\n", "the file /config.yaml has the kind Pod, and KubeSchedulerConfiguration is expected; check that"),
        ("- a\n", "the file /config.yaml has no kind"),
        ("kind: KubeSchedulerConfiguration\n", "apiVersion: None is not an API version"),
        ("apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n", "apiVersion: .*v1alpha1.* use one of"),
        (text_of(configuration(parallelism=0)), "parallelism: 0 is not above 0"),
    ],
)
def test_a_file_that_cannot_be_managed_is_refused(text: str, said: str) -> None:
    with pytest.raises(SchedulerConfigError, match=said):
        plan(text, name="a")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"plugins": {"scores": {}}}, "profiles[1].plugins.scores: kube-scheduler refuses a field that .* the nearest is score"),
        ({"extenders": [{**EXTENDER, "nodeCacheCapabel": True}]}, "extenders[0].nodeCacheCapabel: kube-scheduler refuses a field"),
        ({"leader_election": {"leaderelect": False}}, "leaderElection.leaderelect: .* the nearest is leaderElect"),
        ({"plugin_config": arguments("NodeAffinity", added={})}, "profiles[1].pluginConfig[0].args.added: "),
        (
            {"plugins": plugins("score", "NetworkTraffic")},
            "kube-scheduler has no plugin 'NetworkTraffic'; .* known_",
        ),
        ({"extenders": [{**EXTENDER, "tlsConfig": {"keyData": "a private key"}}]}, "extenders[0].tlsConfig.keyData: it is not base64"),
        ({"percentage_of_nodes_to_score": 101}, "profiles[1].percentageOfNodesToScore: 101 is not a percentage"),
        ({"kubernetes_version": "1.36", "api_version": "v1beta3"}, "does not read"),
    ],
)
def test_wrong_options_are_refused(options: Json, said: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        plan(None, **{"name": "a", **options})
    parts = said.split(".* ")
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize("state", ["present", "absent"])
def test_an_unknown_field_of_the_file_is_refused(state: str) -> None:
    text = text_of(configuration(newField=1, profiles=[profile(), profile("b")]))
    with pytest.raises(SchedulerConfigError, match=rf"^{PLACE}: newField: kube-scheduler refuses a field that it does not know; "):
        plan(text, name="a" if state == "present" else "b", state=state)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("state", ["present", "absent"])
@pytest.mark.parametrize(
    ("field", "value", "options"),
    [
        ("profiles", profile("gpu"), {"name": "network-traffic"}),
        ("profiles", "gpu", {"name": "default-scheduler"}),
        ("profiles[0]", ["gpu"], {"name": "network-traffic"}),
        ("extenders", EXTENDER, {"extenders": [EXTENDER]}),
        ("leaderElection", [{"leaderElect": False}], {"name": "default-scheduler", "leader_election": {"resourceName": "a"}}),
        ("clientConnection", "kubeconfig", {"name": "default-scheduler", "client_connection": {"kubeconfig": "/a"}}),
    ],
)
def test_a_part_of_the_file_with_a_wrong_type_is_refused_and_not_replaced(
    field: str, value: object, options: Json, *, state: str, force: bool
) -> None:
    text = text_of(configuration(**{field.partition("[")[0]: value}))
    with pytest.raises(SchedulerConfigError, match=rf"^{PLACE}: {re.escape(field)}: .* expected; "):
        plan_profile(text, {**DEFAULTS, **options, "state": state, "force": force}, PLACE)


def test_a_flag_does_not_replace_a_part_of_the_file_with_a_wrong_type() -> None:
    command = ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf"]
    with pytest.raises(SchedulerConfigError, match=rf"^{PLACE}: clientConnection: .* a mapping is expected"):
        plan_profile(text_of(configuration(clientConnection="kubeconfig")), {**DEFAULTS, "name": "a"}, PLACE, command)


def test_force_keeps_the_unknown_fields_of_the_file_with_a_warning() -> None:
    found = plan(text_of(configuration(newField=1)), name="a", force=True)
    assert found.config == configuration(newField=1, profiles=[profile(), profile("a")])
    assert len(found.warnings) == 1 and found.warnings[0].startswith(f"{PLACE}: newField: kube-scheduler refuses a field")


def test_force_writes_unknown_fields_of_the_options_with_a_warning() -> None:
    found = plan(None, name="default-scheduler", leader_election={"newField": 1}, force=True)
    assert found.config is not None and found.config["leaderElection"] == {"newField": 1}
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "leaderElection.newField: kube-scheduler refuses a field that it does not know; remove it, or correct its spelling"
    ]


def test_a_version_after_the_tables_may_have_more_fields_and_says_so() -> None:
    found = plan(None, name="default-scheduler", kubernetes_version="1.40", leader_election={"newField": 1})
    assert found.config is not None and found.config["leaderElection"] == {"newField": 1}
    assert [warning.partition(": ")[2][:40] for warning in found.warnings] == [
        "Kubernetes 1.40 is newer than the tables",
        "leaderElection.newField: kube-scheduler ",
    ]


def test_harmful_settings_are_warnings_with_the_place() -> None:
    found = plan(None, name="default-scheduler", extenders=[{**EXTENDER, "weight": 20}])
    assert len(found.warnings) == 1 and found.warnings[0].startswith(f"{PLACE}: extenders[0].weight: the extender adds up to 2000")


def test_flags_of_the_scheduler_are_taken_over() -> None:
    command = ["kube-scheduler", "--kubeconfig=/etc/kubernetes/scheduler.conf", "--leader-elect=true"]
    found = plan(None, command, name="default-scheduler")
    assert found.config == configuration(profiles=[profile()], clientConnection={"kubeconfig": "/etc/kubernetes/scheduler.conf"})
    with pytest.raises(SchedulerConfigError, match="--leader-elect: the flag of kube-scheduler overrides"):
        plan(None, command, name="default-scheduler", leader_election={"leaderElect": False})


@pytest.mark.parametrize(
    "text", [None, text_of(configuration()), "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration\n"]
)
def test_the_removal_of_what_is_not_there_changes_nothing(text: str | None) -> None:
    found = plan(text, name="a", extenders=[EXTENDER], state="absent", kubernetes_version=None)
    assert (found.after, found.warnings) == (text, [])


def test_a_profile_can_be_removed_from_a_file_that_is_valid_only_without_it() -> None:
    broken = configuration(profiles=[profile(), profile("a", percentageOfNodesToScore=500)])
    found = plan(text_of(broken), name="a", state="absent", kubernetes_version=None)
    assert found.config == configuration(profiles=[profile()])


def test_the_command_of_a_static_pod_is_found() -> None:
    pod = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "x", "command": ["sh"]}, {"command": ["/usr/bin/kube-scheduler"], "args": ["--v=2"]}]},
    }
    assert command_of(yaml.safe_dump(pod), "the manifest") == ["/usr/bin/kube-scheduler", "--v=2"]


@pytest.mark.parametrize("text", ["kind: Pod\n", "- a\n", "spec: {containers: [{name: x, command: [sh]}]}", "a: ["])
def test_another_manifest_is_refused(text: str) -> None:
    with pytest.raises(SchedulerConfigError, match=r"the manifest (has no container with the command kube-scheduler|is no YAML)"):
        command_of(text, "the manifest")
