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
from tests.integration.roles.role_play import RolePlay, ansible_playbook

CRITICAL, SPREAD, SCHEDULER = "critical_rescuer", "spread_cronjob", "extended_scheduler"


def rendered(role: str, folder: Path, **variables: Any) -> dict[str, dict[str, Any]]:
    """Return the objects of the rendered files by kind and name."""
    to = folder / "rendered"
    run = RolePlay(role, folder, {f"{role}_render_to": str(to), f"{role}_image": "registry.example.org/services:1"}).run(
        **{f"{role}_{name}": value for name, value in variables.items()}
    )
    assert run.code == 0, run.output
    documents = [yaml.safe_load(file.read_text()) for file in to.glob("*.yaml") if file.name != "kustomization.yaml"]
    objects = [item for document in documents for item in document.get("items", [document])]
    return {f"{item['kind']} {item['metadata']['name']}": item for item in objects}


def test_a_setting_without_a_value_is_not_given_and_a_namespace_of_digits_is_a_text(tmp_path: Path) -> None:
    objects = rendered(SPREAD, tmp_path, namespace="123", suspend="y", settings={"wait_timeout": None, "max_parallel": "2"})
    cron_job = objects["CronJob kube-scheduling-rebalancer"]
    # 5 groups of 10 minutes, and 300 seconds.
    assert cron_job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] == 3300 and cron_job["spec"]["suspend"] is True
    assert objects["Namespace 123"] and {item["metadata"].get("namespace", "123") for item in objects.values()} == {"123", "kube-system"}
    assert "wait_timeout" not in objects["ConfigMap kube-scheduling-rebalancer"]["data"]["config.yml"]


def test_without_settings_the_file_of_the_settings_is_an_empty_mapping(tmp_path: Path) -> None:
    config = rendered(SPREAD, tmp_path)["ConfigMap kube-scheduling-rebalancer"]["data"]["config.yml"]
    assert isinstance(config, str) and yaml.safe_load(config) == {}


def test_a_rebalancer_that_only_plans_gets_no_right_to_write(tmp_path: Path) -> None:
    objects = rendered(SPREAD, tmp_path, settings={"dry_run": "yes"})
    roles = [item for name, item in objects.items() if name.startswith(("ClusterRole ", "Role "))]
    assert {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {role["kind"] for role in roles} == {"ClusterRole", "Role"}


def test_the_rescuer_keeps_its_default_for_a_setting_without_a_value(tmp_path: Path) -> None:
    objects = rendered(CRITICAL, tmp_path, namespace="123", settings={"stop_timeout": None}, network_policy="off")
    deployment = objects["Deployment kube-scheduling-rescuer"]
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 75
    assert deployment["metadata"]["namespace"] == "123" and "NetworkPolicy kube-scheduling-rescuer" not in objects


def test_the_scheduler_has_only_the_rights_and_the_fields_that_its_variables_ask_for(tmp_path: Path) -> None:
    variables = {"extender_image": "registry.example.org/services:1", "namespaces": "team", "node_label": "", "image_pull_secrets": ["key"]}
    objects = rendered(SCHEDULER, tmp_path, preset="reward", priority_class="", **variables)
    assert {name.partition(" ")[0] for name in objects} == {
        "ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding", "ConfigMap", "PodDisruptionBudget", "Deployment",
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
    }  # fmt: skip
    rules = objects["Role kube-scheduling-scheduler"]["rules"]
    assert {name for rule in rules for name in rule.get("resourceNames", [])} == {"kube-scheduling-scheduler", "kube-scheduling-extender"}
    spec = objects["Deployment kube-scheduling-scheduler"]["spec"]["template"]["spec"]
    assert "affinity" not in spec and "priorityClassName" not in spec and spec["imagePullSecrets"] == [{"name": "key"}]
    policy = objects["MutatingAdmissionPolicy kube-scheduling-scheduler"]["spec"]
    assert policy["matchConstraints"]["namespaceSelector"]["matchExpressions"][0] == {
        "key": "team", "operator": "In", "values": ["network-traffic"]
    }  # fmt: skip


def test_all_wrong_variables_are_named_and_the_environment_of_the_controller_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCER_STRATEGY", "from-environment")
    settings = {"check_config": True, "context": "x", "interval": "0m", "kubeconfig": "/x"}
    wrong = RolePlay(SPREAD, tmp_path, {"spread_cronjob_image": "x", "spread_cronjob_form": "deployment"}).run(
        spread_cronjob_settings=settings,
        spread_cronjob_tolerations="key=infra",
        spread_cronjob_node_selector="disk=ssd",
        spread_cronjob_api_server_ports=443,
        spread_cronjob_render_to=str(tmp_path / "rendered"),
    )
    assert wrong.code == 2 and "from-environment" not in wrong.output, wrong.output
    for text in (
        "spread_cronjob_settings has check_config: remove it, because the program would end after the check",
        "spread_cronjob_settings has context: remove it, because ",
        "and spread_cronjob_kubeconfig is the kubeconfig of the role",
        "spread_cronjob_settings has the interval 0m: a Deployment needs an interval above 0",
        "which is no list: write spread_cronjob_tolerations: [{KEY: VALUE}]",
        "which is no dictionary: write spread_cronjob_node_selector: {KEY: VALUE}",
        "spread_cronjob_api_server_ports is 443, which is no list: write spread_cronjob_api_server_ports: [VALUE]",
    ):
        assert text in wrong.output, (text, wrong.output)
    assert "NoneType" not in wrong.output, wrong.output


def test_null_is_not_taken_for_an_empty_text(tmp_path: Path) -> None:
    """An empty `rebalance_namespace_annotation` means all namespaces. ansible-core 2.21 makes an empty text of null."""
    names = ("namespace_annotation", "kinds", "strategy", "max_parallel", "force_managed", "map_path")
    nulls = {f"rebalance_{name}": None for name in names}
    run = ansible_playbook(REPOSITORY / "playbooks" / "rebalance.yml", "-e", json.dumps(nulls), folder=tmp_path)
    assert run.code == 2, run.output
    for name in nulls:
        assert f"{name} is null: remove it, or give it a value" in run.output, run.output
    assert "NoneType" not in run.output and "must be one of" not in run.output, run.output


def test_a_date_in_a_variable_is_a_text(tmp_path: Path) -> None:
    to = tmp_path / "rendered"
    (tmp_path / "variables.yml").write_text("spread_cronjob_annotations: {since: 2026-01-01}\nspread_cronjob_labels: {since: 2026-01-02}\n")
    role = RolePlay(SPREAD, tmp_path, {"spread_cronjob_render_to": str(to), "spread_cronjob_image": "registry.example.org/services:1"})
    run = role.run("-e", f"@{tmp_path / 'variables.yml'}")
    assert run.code == 0, run.output
    metadata = yaml.safe_load((to / "rebalancer-cronjob.yaml").read_text())["metadata"]
    assert metadata["annotations"]["since"] == "2026-01-01" and metadata["labels"]["since"] == "2026-01-02"


def test_objects_without_a_template_are_only_the_namespace(tmp_path: Path) -> None:
    """As node_exporter asks if the cluster has no kind of the Prometheus operator."""
    given = {"name": "exporter", "component": "exporter", "namespace": "123", "state": "absent", "create_namespace": False, "templates": []}
    role = RolePlay("cluster_objects", tmp_path, {f"cluster_objects_{name}": value for name, value in given.items()}, tasks_from="objects")
    run = role.run(then=[{"ansible.builtin.debug": {"msg": "{{ cluster_objects_parts | map(attribute='name') | join }} is the part"}}])
    assert run.code == 0 and "namespace is the part" in run.output, run.output


def test_a_disabled_rescuer_needs_no_image_with_any_word_for_no(tmp_path: Path) -> None:
    run = RolePlay(CRITICAL, tmp_path).run(critical_rescuer_enabled="off")
    assert run.code == 0 and run.changed == 0, run.output


def test_wrong_variables_for_the_schedulers_of_the_cluster_are_named(tmp_path: Path) -> None:
    wrong = RolePlay(SCHEDULER, tmp_path, {"extended_scheduler_extender_image": "x", "extended_scheduler_shape": "kubeadm"}).run(
        extended_scheduler_hosts=["cp-9"],
        extended_scheduler_folder="etc/",
        extended_scheduler_user="system:admin",
        extended_scheduler_image_pull_secrets=["key"],
        extended_scheduler_wait_timeout=10,
        extended_scheduler_renew_days=0,
    )
    assert wrong.code == 2, wrong.output
    for text in (
        "extended_scheduler_hosts has cp-9, which is not in the inventory: correct the name, or add the host",
        "extended_scheduler_folder is etc/: set it to an absolute path on the hosts, without / at the end",
        "extended_scheduler_user is system:admin: names that begin with system: belong to Kubernetes, so choose another one",
        "extended_scheduler_image_pull_secrets is set, and a static pod cannot use Secrets",
        "extended_scheduler_wait_timeout is 10: a kube-scheduler needs up to 35 s until it is ready, so set at least 60",
        "extended_scheduler_renew_days is 0: it must be a number, at least 1",
    ):
        assert text in wrong.output, wrong.output


def test_wrong_variables_for_schedulers_on_hosts_are_named(tmp_path: Path) -> None:
    role = RolePlay(SCHEDULER, tmp_path, {"extended_scheduler_shape": "systemd"})
    wrong = role.run(
        extended_scheduler_binary_archive="/srv/kubernetes-server-linux-amd64.tar.gz",
        extended_scheduler_binary_checksum="sha256:abc",
        extended_scheduler_scheduler_kubeconfig="/srv/scheduler.kubeconfig",
        extended_scheduler_secure_port=5501,
        extended_scheduler_scheduler_user="kube-scheduling-extender",
        extended_scheduler_program_folder="opt",
        extended_scheduler_wait_timeout=10,
    )
    assert wrong.code == 2, wrong.output
    for text in (
        "extended_scheduler_shape is systemd, and there is no host for it: set extended_scheduler_hosts",
        "extended_scheduler_binary_checksum is sha256:abc: set it to the SHA-256 sum of extended_scheduler_binary_archive, 64",
        "only one of extended_scheduler_scheduler_kubeconfig and extended_scheduler_extender_kubeconfig is set: set both, or none of them",
        "extended_scheduler_secure_port is 5501: set it to a port up to 65535 that no extender uses",
        "extended_scheduler_scheduler_user is kube-scheduling-extender: choose a name that does not begin with system: and is not that of",
        "extended_scheduler_program_folder is opt: set it to an absolute path on the hosts, without / at the end",
        "extended_scheduler_wait_timeout is 10: a kube-scheduler needs up to 35 s until it is ready, so set at least 60",
    ):
        assert text in wrong.output, wrong.output
    # Without a control-plane host there is neither a program to copy nor kubeadm. The image is not needed.
    alone = role.run(extended_scheduler_hosts=["localhost"])
    assert alone.code == 2 and "extended_scheduler_extender_image" not in alone.output, alone.output
    assert "there is no kube-scheduler to install: set extended_scheduler_binary_path or extended_scheduler_binary_archive" in alone.output
    assert "there are no kubeconfigs: set extended_scheduler_scheduler_kubeconfig and" in alone.output
