# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs of site.yml for which no API server is needed, because they end before its first answer."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.layout import REPOSITORY
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tests.unit.report.results import BERLIN

pytestmark = pytest.mark.plays

IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}

NO_PROGRAMS = {"site_spread_cronjob": False, "site_critical_rescuer": False}
"""A run for the nodes, whose checks take less time."""

CONTEXT = {"name": "first", "context": {"cluster": "first", "user": "first"}}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "first", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "first", "user": {"token": "none"}}],
    "contexts": [CONTEXT],
    "current-context": "first",
}


def stats_of(run: RoleRun, name: str) -> dict[str, Any]:
    """Return the numbers that a playbook reports with set_stats, by host."""
    found = re.search(r"^\s*RUN: (\{.*\})$", run.output, re.MULTILINE)
    assert found, run.output
    stats: dict[str, Any] = json.loads(found.group(1))[name]
    return stats


def play(name: str, folder: Path, *arguments: str, **variables: Any) -> RoleRun:
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    connection = dict.fromkeys(("site_kubeconfig", "rebalance_kubeconfig"), str(folder / "kubeconfig"))
    given = json.dumps(connection | variables)
    return ansible_playbook(REPOSITORY / "playbooks" / f"{name}.yml", *arguments, "-e", given, folder=folder)


def site(folder: Path, *arguments: str, hosts: dict[str, Any] | None = None, **variables: Any) -> RoleRun:
    """Run site.yml. The hosts are those of the group `clusters`, on this machine."""
    if hosts is not None:
        here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (folder / "inventory.json").write_text(json.dumps({"clusters": {"hosts": hosts, "vars": here}}))
        arguments = (*arguments, "-i", str(folder / "inventory.json"), "-e", "site_cluster_hosts=clusters")
    return ansible_playbook(REPOSITORY / "playbooks" / "site.yml", *arguments, "-e", json.dumps(IMAGE | variables), folder=folder)


CLUSTERS = {
    "of-site": ({"site_kubeconfig": "FILE", "site_context": "context-of-site"}, "context-of-site"),
    "of-rebalance": (
        {"site_kubeconfig": "FILE", "site_context": "context-of-site", "rebalance_context": "context-of-rebalance"},
        "context-of-rebalance",
    ),
    # A context belongs to its kubeconfig.
    "other-kubeconfig": (
        {"site_kubeconfig": "FILE", "site_context": "context-of-site", "rebalance_kubeconfig": "/nowhere/rebalance"},
        "/nowhere/rebalance",
    ),
}
"""The variables of a host, and the text in its error."""


@pytest.fixture(scope="module")
def rebalanced(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The numbers of a run with the tag rebalance for these hosts."""
    folder = tmp_path_factory.mktemp("rebalanced")
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    file = str(folder / "kubeconfig")
    hosts = {
        host: {name: file if value == "FILE" else value for name, value in given.items()} for host, (given, _error) in CLUSTERS.items()
    }
    run = site(folder, "--tags", "rebalance", hosts=hosts)
    assert run.code == 2, run.output
    return stats_of(run, "kube_scheduling_rebalance")


@pytest.mark.parametrize("host", CLUSTERS)
def test_the_tag_rebalance_works_on_the_cluster_of_site_yml(host: str, rebalanced: dict[str, Any]) -> None:
    assert CLUSTERS[host][1] in rebalanced[host]["error"], rebalanced


def test_a_run_for_one_node_checks_only_that_node(tmp_path: Path) -> None:
    """The play of the cluster has no host then, so no API server is needed."""
    inventory = tmp_path / "inventory.yml"
    nodes = {"node-1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}, "node-2": {"ansible_port": 1}}
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes}}))
    image = {"service_image_delivery": "archive", "service_image_reference": "", "service_image_containerd_socket": "/nowhere/sock"}
    run = site(tmp_path, "-i", str(inventory), "--limit", "node-1", "--tags", "preflight", **image)
    assert run.code == 2 and "Failed checks:" in run.output and "node-1 has no socket /nowhere/sock" in run.output, run.output
    assert "node-2" not in run.output and "API server" not in run.output


@pytest.mark.parametrize("excluded", ["vault,kube-system", ["kube-system"]])
def test_add_ons_of_an_excluded_namespace_are_not_spread(tmp_path: Path, excluded: str | list[str]) -> None:
    run = play("site", tmp_path, "--tags", "spread_addons", rebalance_exclude_namespaces=excluded)
    assert run.code == 0 and "coredns" not in run.output, run.output


def test_add_ons_are_spread_with_the_scheduler_configuration_of_rebalance(tmp_path: Path) -> None:
    """The module refuses a mapping before it asks the API server."""
    given = {"rebalance_exclude_namespaces": "vault", "rebalance_scheduler_config": {"no": "list"}}
    run = play("site", tmp_path, "--tags", "spread_addons", **given)
    assert "The add-ons were not spread: argument 'scheduler_config' " in run.in_one_line, run.output


@pytest.mark.parametrize("name", ["site", "after_maintenance"])
def test_the_variables_are_checked_before_only_the_add_ons_are_spread(tmp_path: Path, name: str) -> None:
    arguments = ("--tags", "spread_addons", "--skip-tags", "wait", "-e", "site_spread_addons=[]")
    run = play(name, tmp_path, *arguments, site_spread_addon=["coredns"])
    assert run.code == 2 and "There is no variable site_spread_addon; the nearest is site_spread_addons." in run.output, run.output
    assert 'site_spread_addons is \\"[]\\", which is no list' in run.output and "coredns" not in run.output.partition("no list")[2]


@pytest.mark.parametrize(("skipped", "is_spread"), [("wait,restart", False), ("wait", True)])
def test_after_maintenance_spreads_no_add_ons_without_the_tag_restart(tmp_path: Path, skipped: str, is_spread: bool) -> None:
    run = play("after_maintenance", tmp_path, "--skip-tags", skipped, rebalance_report_path="")
    assert ("Deployment kube-system/coredns was not spread" in run.in_one_line) == is_spread, run.output
    assert "kube_scheduling_rebalance" in run.output, run.output


@pytest.mark.parametrize("action", ["evicted", "failed"])
def test_evictions_of_add_ons_are_in_the_numbers_of_the_playbook(tmp_path: Path, action: str) -> None:
    workload = {"kind": "Deployment", "namespace": "kube-system", "name": "coredns", "action": action, "evicted": [{"pod": "coredns-1"}]}
    found = {"results": [{"changed": True, "cluster": BERLIN, "workloads": [workload]}]}
    numbers = {"ok": True, "plan": False, "changed": False, "error": "", "installed": ["spread_cronjob"]}
    before = {"data": {"stats": "{{ {inventory_hostname: numbers} }}"}, "per_host": False, "aggregate": True}
    tasks = [{"ansible.builtin.set_stats": before}, {"ansible.builtin.import_tasks": str(REPOSITORY / "playbooks/tasks/spread_addons.yml")}]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    given = {"numbers": numbers, "rebalance_exclude_namespaces": ["kube-system"], "__spread_addons": found}
    given |= {"__spread_addons_plan": False, "__spread_addons_stats": "stats"}
    run = ansible_playbook(tmp_path / "play.yml", "-e", json.dumps(given), folder=tmp_path)
    ok = action == "evicted"
    error = "" if ok else "Deployment kube-system/coredns: 1 pod was evicted: ."
    assert stats_of(run, "stats")["localhost"] == {**numbers, "ok": ok, "changed": True, "cluster": BERLIN, "error": error}, run.output


def test_a_skipped_tag_that_the_checks_have_is_refused(tmp_path: Path) -> None:
    run = site(tmp_path, "--skip-tags", "verify,critical_rescuer,preflight")
    assert run.code == 2 and "--skip-tags critical_rescuer,preflight would skip the checks" in run.output, run.output
    numbers = stats_of(run, "kube_scheduling_site")["localhost"]
    assert not numbers["ok"] and numbers["error"].startswith("--skip-tags critical_rescuer,preflight "), numbers


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The numbers of a run for three clusters with mistakes. None of their API servers answers."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    hosts = {
        # Variables of the host of a cluster, which localhost does not have.
        "bastion": {"site_kubeconfig": "/nowhere/kubeconfig", "site_kubeconfg": "x", "site_context": "of-site", "critical_rescuer_port": 1},
        "disabled": {"critical_rescuer_enabled": "off", "critical_rescuer_port": 2},
        "good": NO_PROGRAMS,
    }
    given = {"spread_cronjob_settings": {"max_worklods": 1}}
    run = site(folder, hosts=hosts, **given)
    assert run.code == 2, run.output
    return stats_of(run, "kube_scheduling_site")


def test_all_mistakes_are_named_without_an_api_server_and_the_connection_is_named(refused: dict[str, Any]) -> None:
    numbers = refused["bastion"]
    assert not numbers["ok"] and not numbers["changed"], numbers
    for text in (
        "There is no variable site_kubeconfg; the nearest is site_kubeconfig.",
        'does not answer with site_kubeconfig "/nowhere/kubeconfig" and site_context "of-site": ',
        "spread_cronjob_settings: max_worklods is not a setting",
        "critical_rescuer_port is 1: ",
    ):
        assert text in numbers["error"], (text, numbers["error"])


def test_the_variables_of_a_disabled_rescuer_are_not_checked(refused: dict[str, Any]) -> None:
    assert "critical_rescuer_port is 2" not in refused["bastion"]["error"], refused


def test_each_cluster_has_the_failed_checks(refused: dict[str, Any]) -> None:
    assert set(refused) == {"bastion", "disabled", "good"} and len({numbers["error"] for numbers in refused.values()}) == 1, refused


IMAGES = ("extended_scheduler_extender_image", "critical_rescuer_image", "spread_cronjob_image")


def test_an_image_that_is_named_beside_the_delivery_may_be_pulled(tmp_path: Path) -> None:
    """The default delivery is an archive, which no node can pull. The job template of AWX asks only for the image."""
    result = {"reference": "kube-scheduling.onprem/services:1", "pull_policy": "Never", "pull_secrets": []}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(REPOSITORY / "playbooks" / "vars" / "site.yml")],
        "tasks": [
            {"ansible.builtin.set_fact": {"service_image_result": result}},
            *({"ansible.builtin.debug": {"msg": f"{name} unset: {{{{ {name}_pull_policy }}}}."}} for name in IMAGES),
            {"ansible.builtin.set_fact": dict.fromkeys(IMAGES, "registry.example.org/services:2")},
            *({"ansible.builtin.debug": {"msg": f"{name} named: {{{{ {name}_pull_policy }}}}."}} for name in IMAGES),
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    run = ansible_playbook(tmp_path / "play.yml", folder=tmp_path)
    assert run.code == 0, run.output
    for name in IMAGES:
        assert f"{name} unset: Never." in run.output and f"{name} named: IfNotPresent." in run.output, run.output


ROLES = ("spread_cronjob", "critical_rescuer")


@pytest.mark.parametrize(
    ("site_wide", "of_role", "only_plans"),
    [(True, None, True), (True, False, True), (None, True, True), ("yes", None, True), (False, True, False), (None, None, False)],
)
def test_site_dry_run_is_the_setting_of_both_programs(tmp_path: Path, site_wide: Any, of_role: bool | None, only_plans: bool) -> None:
    given: dict[str, Any] = {} if site_wide is None else {"site_dry_run": site_wide}
    given |= {} if of_role is None else dict.fromkeys((f"{role}_dry_run" for role in ROLES), of_role)
    given |= {"spread_cronjob_settings": {"max_workloads": 1}, "critical_rescuer_settings": {"max_victims": 2}}
    folders = [REPOSITORY / "roles" / role for role in ROLES]
    defaults = {name: value for folder in folders for name, value in yaml.safe_load((folder / "defaults/main.yml").read_text()).items()}
    # The defaults of a role are not variables of its hosts.
    defaults = {name: value for name, value in defaults.items() if not name.endswith("_dry_run")}
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"localhost": {**here, **defaults, **given}}
    shown = (
        "{{ [__spread_cronjob_config | from_yaml, __critical_rescuer_config | from_yaml, __spread_cronjob_only_plans | bool] | to_json }}"
    )
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(REPOSITORY / "playbooks/vars/site.yml"), *(str(folder / "vars/main/main.yml") for folder in folders)],
        "tasks": [{"ansible.builtin.copy": {"content": shown, "dest": str(tmp_path / "shown"), "mode": "0644"}}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    run = ansible_playbook(tmp_path / "play.yml", "-i", str(tmp_path / "inventory.yml"), folder=tmp_path)
    assert run.code == 0, run.output
    rebalancer, rescuer, reads_only = json.loads((tmp_path / "shown").read_text())
    assert (rebalancer["max_workloads"], rescuer["max_victims"]) == (1, 2)
    assert (rebalancer.get("dry_run", False), rescuer.get("dry_run", False), reads_only) == (only_plans,) * 3


def test_the_failed_checks_of_all_hosts_are_read_once() -> None:
    """On each of 1,000 hosts, a task that reads the variables of all hosts would take minutes."""
    files = [REPOSITORY / "playbooks" / "tasks" / f"site_{name}.yml" for name in ("refuse", "refused")]
    tasks = [task for file in files for task in yaml.safe_load(file.read_text())]
    assert len(tasks) == 4 and [task["name"] for task in tasks if not task.get("run_once")] == []


def test_nodes_that_cannot_be_reached_and_the_api_server_are_in_one_list(tmp_path: Path) -> None:
    down = {"ansible_host": "127.0.0.1", "ansible_port": 1}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": {"node-1": down, "node-2": down}}}))
    run = play("site", tmp_path, "-i", str(inventory), site_node_exporter=True, **NO_PROGRAMS)
    numbers = stats_of(run, "kube_scheduling_site")["localhost"]
    assert run.code != 0 and "does not answer with site_kubeconfig" in numbers["error"], run.output
    assert "no host of site_node_hosts " in numbers["error"] and " (node-1, node-2): " in numbers["error"], numbers


def test_each_node_with_another_container_runtime_is_named(tmp_path: Path) -> None:
    """The check of the runtimes is a loop, whose own message is that items have failed."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": {"node-1": here, "node-2": here}}}))
    given = {"service_image_containerd_socket": "/nowhere/sock", **NO_PROGRAMS}
    run = play("site", tmp_path, "-i", str(inventory), "--tags", "preflight", **given)
    error = stats_of(run, "kube_scheduling_site")["localhost"]["error"]
    assert run.code == 2 and "node-1 has no socket" in error and "node-2 has no socket" in error, run.output


@pytest.mark.parametrize("size", ["", "2x", ["20%", 1]], ids=["empty", "wrong", "list"])
def test_an_empty_size_of_batches_is_unset_and_a_wrong_one_is_named(tmp_path: Path, size: Any) -> None:
    run = site(tmp_path, site_serial=size, **NO_PROGRAMS)
    assert run.code == 2 and ("site_serial has 2x: " in run.output) == (size == "2x"), run.output
    assert "site_serial has" not in run.output.replace("site_serial has 2x", ""), run.output
    assert "no bug" not in run.output and "invalid literal" not in run.output, run.output


def test_clusters_with_other_images_or_with_one_group_of_hosts_are_refused(tmp_path: Path) -> None:
    """The image is built and pushed once for all clusters of a run."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {
        name: here | {"service_image_registry": f"{name}.example.org", "service_image_pull_secrets": [name]} for name in ("first", "second")
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "children": {"kube_control_plane": {"hosts": {"first": {}}}}}}))
    variables = {"site_cluster_hosts": "first:second", "critical_rescuer_form": "static_pod", "service_image_delivery": "registry"}
    run = play("site", tmp_path, "-i", str(inventory), site_scheduler=True, extended_scheduler_shape="kubeadm", **variables)
    once = ", with -e site_cluster_hosts=HOST"
    for cluster in ("first", "second"):
        error = stats_of(run, "kube_scheduling_site")[cluster]["error"]
        assert "service_image_registry is not the same for first, second: " in error and once in error, error
        assert "service_image_pull_secrets" not in error
        assert (
            "critical_rescuer_form is static_pod for several clusters (first, second), and critical_rescuer_static_hosts is empty: "
            in error
        )
        assert "extended_scheduler_shape is kubeadm for several clusters (first, second), and extended_scheduler_hosts is empty: " in error


def test_a_refused_uninstallation_has_numbers_and_removes_no_image_from_the_nodes(tmp_path: Path) -> None:
    """Programs of a cluster that is refused still need the image, also if another cluster is not refused."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"first": here, "second": here | {"site_kubeconfg": "x"}, "node-1": here}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "children": {"kube_node": {"hosts": {"node-1": {}}}}}}))
    kept = {"critical_rescuer_enabled": False, "spread_cronjob_state": "present"}
    run = play("uninstall", tmp_path, "-i", str(inventory), site_cluster_hosts="first:second", **kept)
    numbers = stats_of(run, "kube_scheduling_uninstall")
    assert run.code == 2 and not any(each["ok"] or each["changed"] or each["removed"] for each in numbers.values()), run.output
    for each in (numbers["first"], numbers["second"]):
        assert each["error"].startswith("Nothing was changed. Failed checks:\n"), each
        assert "spread_cronjob_state is present: remove it" in each["error"]
        assert "critical_rescuer_enabled is False: remove it" in each["error"]
    assert "There is no variable site_kubeconfg" in numbers["second"]["error"] and "Run the playbook again" not in run.output
    assert "Remove the image" not in re.findall(r"^TASK \[(.*)\]", run.output, re.MULTILINE), run.output
