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

IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}


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


def site(folder: Path, *arguments: str, **variables: Any) -> RoleRun:
    return ansible_playbook(REPOSITORY / "playbooks" / "site.yml", *arguments, "-e", json.dumps(IMAGE | variables), folder=folder)


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"site_kubeconfig": "FILE", "site_context": "of-site"}, "of-site"),
        ({"site_kubeconfig": "FILE", "site_context": "of-site", "rebalance_context": "of-rebalance"}, "of-rebalance"),
        # A context belongs to its kubeconfig.
        ({"site_kubeconfig": "FILE", "site_context": "of-site", "rebalance_kubeconfig": "/nowhere/rebalance"}, "/nowhere/rebalance"),
    ],
)
def test_the_tag_rebalance_works_on_the_cluster_of_site_yml(tmp_path: Path, variables: dict[str, str], error: str) -> None:
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    given = {name: str(tmp_path / "kubeconfig") if value == "FILE" else value for name, value in variables.items()}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"bastion": {"ansible_connection": "local"}}}}))
    run = site(tmp_path, "--tags", "rebalance", "-i", str(inventory), site_cluster_hosts="bastion", **given)
    assert run.code == 2 and error in stats_of(run, "kube_scheduling_rebalance")["bastion"]["error"], run.output


def test_a_run_for_one_node_checks_only_that_node(tmp_path: Path) -> None:
    """The play of the cluster has no host then, so no API server is needed."""
    inventory = tmp_path / "inventory.yml"
    nodes = {"node-1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}, "node-2": {"ansible_port": 1}}
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes}}))
    image = {"service_image_delivery": "archive", "service_image_reference": "", "service_image_containerd_socket": "/nowhere/sock"}
    run = site(tmp_path, "-i", str(inventory), "--limit", "node-1", "--tags", "preflight", **image)
    assert run.code == 2 and "Failed checks:" in run.output and "node-1 has no socket /nowhere/sock" in run.output, run.output
    assert "node-2" not in run.output and "API server" not in run.output


def test_a_skipped_tag_that_the_checks_have_is_refused(tmp_path: Path) -> None:
    run = site(tmp_path, "--skip-tags", "verify,critical_rescuer,preflight")
    assert run.code == 2 and "--skip-tags critical_rescuer,preflight would skip the checks before the installation, too." in run.output, (
        run.output
    )
    numbers = stats_of(run, "kube_scheduling_site")["localhost"]
    assert not numbers["ok"] and numbers["error"].startswith("--skip-tags critical_rescuer,preflight "), numbers


def test_all_mistakes_are_named_without_an_api_server_and_the_connection_is_named(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yml"
    # A variable of the host of the cluster, which localhost does not have.
    bastion = {"ansible_connection": "local", "site_kubeconfg": "x", "site_context": "of-site", "critical_rescuer_port": 1}
    inventory.write_text(json.dumps({"all": {"hosts": {"bastion": bastion}}}))
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    run = site(
        tmp_path,
        "-i", str(inventory),
        site_cluster_hosts="bastion",
        site_kubeconfig=str(tmp_path / "kubeconfig"),
        spread_cronjob_settings={"max_worklods": 1},
    )  # fmt: skip
    numbers = stats_of(run, "kube_scheduling_site")["bastion"]
    assert run.code == 2 and not numbers["ok"] and not numbers["changed"], run.output
    for text in (
        "There is no variable site_kubeconfg; the nearest is site_kubeconfig.",
        f'the API server does not answer with site_kubeconfig "{tmp_path}/kubeconfig" and site_context "of-site": ',
        "spread_cronjob_settings: max_worklods is not a setting",
        "critical_rescuer_port is 1: it must be a number, at least 1024",
    ):
        assert text in numbers["error"], (text, numbers["error"])
    # A disabled rescuer has no variables to check.
    disabled = site(tmp_path, "-i", str(inventory), site_cluster_hosts="bastion", critical_rescuer_enabled="off")
    assert disabled.code == 2 and "critical_rescuer_port" not in stats_of(disabled, "kube_scheduling_site")["bastion"]["error"], (
        disabled.output
    )


def test_the_failed_checks_of_all_hosts_are_read_once() -> None:
    """On each of 1,000 hosts, a task that reads the variables of all hosts would take minutes."""
    plays = yaml.safe_load((REPOSITORY / "playbooks" / "site.yml").read_text())
    (play,) = [play for play in plays if play["name"] == "Fail if a check has failed"]
    assert [task["name"] for task in play["tasks"] if not task.get("run_once")] == []


def test_each_cluster_has_the_failed_checks(tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"first": here | {"site_kubeconfg": "x"}, "second": here, "node-1": here}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "children": {"kube_node": {"hosts": {"node-1": {}}}}}}))
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    run = site(tmp_path, "-i", str(inventory), site_cluster_hosts="first:second", site_kubeconfig=str(tmp_path / "kubeconfig"))
    numbers = stats_of(run, "kube_scheduling_site")
    assert run.code == 2 and set(numbers) == {"first", "second"}, run.output
    assert all("There is no variable site_kubeconfg; the nearest is site_kubeconfig." in each["error"] for each in numbers.values()), (
        numbers
    )
