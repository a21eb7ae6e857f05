# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs of the roles without a cluster: what they render, and the wrong variables and settings that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.layout import REPOSITORY
from tests.integration.roles.host_cases import CasesRun, play_role
from tests.integration.roles.role_play import RolePlay, ansible_playbook

pytestmark = pytest.mark.plays

CRITICAL, SPREAD, SCHEDULER = "critical_rescuer", "spread_cronjob", "extended_scheduler"
IMAGE = "registry.example.org/services:1"


def run_cases(role: str, folder: Path, cases: dict[str, dict[str, Any]], **common: Any) -> CasesRun:
    """Run the role for each case, which renders into a folder with its name. The variables have no prefix."""
    given = {
        case: {f"{role}_{name}": value for name, value in {"render_to": str(folder / case), **common, **variables}.items()}
        for case, variables in cases.items()
    }
    return play_role(RolePlay(role, folder), given)


def objects_in(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the objects of the rendered files by kind and name."""
    documents = [yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml") if file.name != "kustomization.yaml"]
    objects = [item for document in documents for item in document.get("items", [document])]
    return {f"{item['kind']} {item['metadata']['name']}": item for item in objects}


def lines_missing(texts: tuple[str, ...], failure: str) -> list[str]:
    """Return the texts that are not in a failure."""
    return [text for text in texts if text not in failure]


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> tuple[CasesRun, Path]:
    """A run of spread_cronjob, and its folder. A variable of the environment is one of the program."""
    folder = tmp_path_factory.mktemp("spread")
    cases = {
        "digits": {"namespace": "123", "suspend": "y", "settings": {"wait_timeout": None, "max_parallel": "2"}},
        "plain": {},
        "plan": {"settings": {"dry_run": "yes"}},
        "wrong": {
            "form": "deployment",
            "settings": {"check_config": True, "context": "x", "interval": "0m", "kubeconfig": "/x"},
            "tolerations": "key=infra",
            "node_selector": "disk=ssd",
            "api_server_ports": 443,
        },
    }
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("REBALANCER_STRATEGY", "from-environment")
        return run_cases(SPREAD, folder, cases, image=IMAGE), folder


def test_a_setting_without_a_value_is_not_given_and_a_namespace_of_digits_is_a_text(spread: tuple[CasesRun, Path]) -> None:
    objects = objects_in(spread[1] / "digits")
    cron_job = objects["CronJob kube-scheduling-rebalancer"]
    # 5 groups of 10 minutes, and 300 seconds.
    assert cron_job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 3300 and cron_job["spec"]["suspend"] is True
    assert objects["Namespace 123"] and {item["metadata"].get("namespace", "123") for item in objects.values()} == {"123", "kube-system"}
    assert "wait_timeout" not in objects["ConfigMap kube-scheduling-rebalancer"]["data"]["config.yml"]


def test_without_settings_the_file_of_the_settings_is_an_empty_mapping(spread: tuple[CasesRun, Path]) -> None:
    config = objects_in(spread[1] / "plain")["ConfigMap kube-scheduling-rebalancer"]["data"]["config.yml"]
    assert isinstance(config, str) and yaml.safe_load(config) == {}


def test_a_rebalancer_that_only_plans_gets_no_right_to_write(spread: tuple[CasesRun, Path]) -> None:
    objects = objects_in(spread[1] / "plan")
    roles = [item for name, item in objects.items() if name.startswith(("ClusterRole ", "Role "))]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {role["kind"] for role in roles} == {"ClusterRole", "Role"}


@pytest.fixture(scope="module")
def rescuer(tmp_path_factory: pytest.TempPathFactory) -> tuple[CasesRun, Path]:
    """A run of critical_rescuer, and its folder."""
    folder = tmp_path_factory.mktemp("rescuer")
    cases = {
        "defaults": {"image": IMAGE, "namespace": "123", "settings": {"stop_timeout": None}, "network_policy": "off"},
        "disabled": {"render_to": "", "enabled": "off"},
    }
    run = run_cases(CRITICAL, folder, cases)
    assert run.code == 0, run.output
    return run, folder


def test_the_rescuer_keeps_its_default_for_a_setting_without_a_value(rescuer: tuple[CasesRun, Path]) -> None:
    objects = objects_in(rescuer[1] / "defaults")
    deployment = objects["Deployment kube-scheduling-rescuer"]
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 75
    assert deployment["metadata"]["namespace"] == "123" and "NetworkPolicy kube-scheduling-rescuer" not in objects


def test_a_disabled_rescuer_needs_no_image_with_any_word_for_no(rescuer: tuple[CasesRun, Path]) -> None:
    assert rescuer[0].changed_on("disabled") == 0


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> tuple[CasesRun, Path]:
    """A run of extended_scheduler, and its folder."""
    folder = tmp_path_factory.mktemp("scheduler")
    cases = {
        "fields": {
            "image": IMAGE,
            "extender_image": IMAGE,
            "preset": "reward",
            "priority_class": "",
            "namespaces": "team",
            "node_label": "",
            "image_pull_secrets": ["key"],
        },
        "kubeadm": {
            "render_to": "",
            "extender_image": "x",
            "shape": "kubeadm",
            "hosts": ["cp-9"],
            "folder": "etc/",
            "user": "system:admin",
            "image_pull_secrets": ["key"],
            "wait_timeout": 10,
            "renew_days": 0,
        },
        "systemd": {
            "render_to": "",
            "shape": "systemd",
            "binary_archive": "/srv/kubernetes-server-linux-amd64.tar.gz",
            "binary_checksum": "sha256:abc",
            "scheduler_kubeconfig": "/srv/scheduler.kubeconfig",
            "secure_port": 5501,
            "scheduler_user": "kube-scheduling-extender",
            "program_folder": "opt",
            "wait_timeout": 10,
        },
        "alone": {"render_to": "", "shape": "systemd", "hosts": ["alone"]},
    }
    return run_cases(SCHEDULER, folder, cases), folder


def test_the_scheduler_has_only_the_rights_and_the_fields_that_its_variables_ask_for(scheduler: tuple[CasesRun, Path]) -> None:
    objects = objects_in(scheduler[1] / "fields")
    assert {name.partition(" ")[0] for name in objects} == {
        "ServiceAccount", "Secret", "ClusterRole", "Role", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "PodDisruptionBudget",
        "Deployment", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    }  # fmt: skip
    (lease,) = objects["Role kube-scheduling-scheduler"]["rules"]
    assert (lease["resourceNames"], lease["verbs"]) == (["kube-scheduling-scheduler"], ["get", "update"])
    rules = objects["Role kube-scheduling-scheduler-extender"]["rules"]
    assert {name for rule in rules for name in rule.get("resourceNames", [])} == {"kube-scheduling-extender"}
    spec = objects["Deployment kube-scheduling-scheduler"]["spec"]["template"]["spec"]
    assert "affinity" not in spec and "priorityClassName" not in spec and spec["imagePullSecrets"] == [{"name": "key"}]
    policy = objects["MutatingAdmissionPolicy kube-scheduling-scheduler"]["spec"]
    assert policy["matchConstraints"]["namespaceSelector"]["matchExpressions"][0] == {
        "key": "team", "operator": "In", "values": ["network-traffic"]
    }  # fmt: skip


def test_each_container_of_the_scheduler_has_only_the_token_of_its_own_user(scheduler: tuple[CasesRun, Path]) -> None:
    objects = objects_in(scheduler[1] / "fields")
    name = "kube-scheduling-scheduler-extender"
    secret = objects[f"Secret {name}"]
    assert secret["type"] == "kubernetes.io/service-account-token" and not {"data", "stringData"} & secret.keys()
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": name}
    assert {entry["name"] for entry in objects[f"ClusterRoleBinding {name}"]["subjects"]} == {name}
    bound = {role["roleRef"]["name"] for role in objects.values() if name in [entry["name"] for entry in role.get("subjects", [])]}
    assert bound == {name} and objects[f"ClusterRole {name}"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
    ]
    spec = objects["Deployment kube-scheduling-scheduler"]["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("kube-scheduling-scheduler", False)
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    tokens = {
        container["name"]: [volumes[mount["name"]] for mount in container["volumeMounts"] if "serviceaccount" in mount["mountPath"]]
        for container in spec["containers"]
    }
    ((of_scheduler,), (of_extender,)) = tokens["scheduler"], tokens["extender-1"]
    assert [next(iter(source)) for source in of_scheduler["projected"]["sources"]] == ["serviceAccountToken", "configMap", "downwardAPI"]
    # A pod does not start without these keys, which Kubernetes writes.
    assert of_extender["secret"]["secretName"] == name
    assert [entry["key"] for entry in of_extender["secret"]["items"]] == ["token", "ca.crt", "namespace"]


def test_all_wrong_variables_are_named_and_the_environment_of_the_controller_does_not_count(spread: tuple[CasesRun, Path]) -> None:
    run, folder = spread
    texts = (
        "spread_cronjob_settings has check_config: remove it",
        "spread_cronjob_settings has context: remove it, because ",
        "and spread_cronjob_kubeconfig is the kubeconfig of the role",
        "spread_cronjob_settings has the interval 0m: ",
        "which is no list: write spread_cronjob_tolerations: [{KEY: VALUE}]",
        "which is no dictionary: write spread_cronjob_node_selector: {KEY: VALUE}",
        "spread_cronjob_api_server_ports is 443, which is no list: write spread_cronjob_api_server_ports: [VALUE]",
    )
    assert lines_missing(texts, run.failure("wrong")) == [], run.failure("wrong")
    assert not (folder / "wrong").exists() and "NoneType" not in run.output and "from-environment" not in run.output, run.output


def test_values_that_cannot_be_evaluated_are_named_with_the_other_mistakes(tmp_path: Path) -> None:
    """As in the checks of site.yml. The argument spec of the role would end the run before."""
    given = {"image": "{{ nope }}", "namespace": "{{ nope.name }}", "form": "pod", "settings": {"max_worklods": 1}}
    cases = {"undefined": {f"spread_cronjob_{name}": value for name, value in given.items()}}
    failure = play_role(RolePlay(SPREAD, tmp_path, tasks_from="preflight"), cases).failure("undefined")
    texts = (
        "spread_cronjob_image has a value that cannot be evaluated: 'nope' is undefined",
        "spread_cronjob_namespace has a value that cannot be evaluated: 'nope' is undefined",
        "value of spread_cronjob_form must be one of: ",
        "spread_cronjob_settings: max_worklods is not a setting",
    )
    assert lines_missing(texts, failure) == [] and "spread_cronjob_image is empty" not in failure, failure


def test_null_is_not_taken_for_an_empty_text(tmp_path: Path) -> None:
    """An empty `rebalance_namespace_annotation` means all namespaces. ansible-core 2.21 makes an empty text of null."""
    names = ("namespace_annotation", "kinds", "strategy", "max_parallel", "force_managed", "map_path")
    nulls = {f"rebalance_{name}": None for name in names}
    run = ansible_playbook(REPOSITORY / "playbooks" / "rebalance.yml", "-e", json.dumps(nulls), folder=tmp_path)
    assert run.code == 2, run.output
    for name in nulls:
        assert f"{name} is null: " in run.output, run.output
    assert "NoneType" not in run.output and "must be one of" not in run.output, run.output


def test_a_date_in_a_variable_is_a_text(tmp_path: Path) -> None:
    to = tmp_path / "rendered"
    (tmp_path / "variables.yml").write_text("spread_cronjob_annotations: {since: 2026-01-01}\nspread_cronjob_labels: {since: 2026-01-02}\n")
    role = RolePlay(SPREAD, tmp_path, {"spread_cronjob_render_to": str(to), "spread_cronjob_image": "registry.example.org/services:1"})
    run = role.run("-e", f"@{tmp_path / 'variables.yml'}")
    assert run.code == 0, run.output
    metadata = yaml.safe_load((to / "rebalancer-cronjob.yaml").read_text())["metadata"]
    assert metadata["annotations"]["since"] == "2026-01-01" and metadata["labels"]["since"] == "2026-01-02"


def test_wrong_variables_for_the_schedulers_of_the_cluster_are_named(scheduler: tuple[CasesRun, Path]) -> None:
    texts = (
        "extended_scheduler_hosts has cp-9, which is not in the inventory",
        "extended_scheduler_folder is etc/: ",
        "extended_scheduler_user is system:admin: ",
        "extended_scheduler_image_pull_secrets is set, ",
        "extended_scheduler_wait_timeout is 10: ",
        "extended_scheduler_renew_days is 0: ",
    )
    assert lines_missing(texts, scheduler[0].failure("kubeadm")) == [], scheduler[0].failure("kubeadm")


def test_wrong_variables_for_schedulers_on_hosts_are_named(scheduler: tuple[CasesRun, Path]) -> None:
    texts = (
        "extended_scheduler_shape is systemd, and there is no host",
        "extended_scheduler_binary_checksum is sha256:abc: ",
        "only one of extended_scheduler_scheduler_kubeconfig and extended_scheduler_extender_kubeconfig ",
        "extended_scheduler_secure_port is 5501: ",
        "extended_scheduler_scheduler_user is kube-scheduling-extender: ",
        "extended_scheduler_program_folder is opt: ",
        "extended_scheduler_wait_timeout is 10: ",
    )
    assert lines_missing(texts, scheduler[0].failure("systemd")) == [], scheduler[0].failure("systemd")


def test_the_program_and_without_a_control_plane_host_the_kubeconfigs_must_be_given(scheduler: tuple[CasesRun, Path]) -> None:
    """The image is not needed."""
    failure = scheduler[0].failure("alone")
    texts = (
        "there is no kube-scheduler to install: ",
        "there are no kubeconfigs: ",
    )
    assert lines_missing(texts, failure) == [] and "extended_scheduler_extender_image" not in failure, failure
