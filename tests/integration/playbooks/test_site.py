# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""site.yml, verify.yml and uninstall.yml against a real API server, whose nodes run pods as simulated ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.roles.installed import installed, state_of
from tests.integration.roles.role_play import RoleRun, ansible_playbook
from tests.integration.workloads import OUTCOME, deployment, wait_rolled_out

__all__ = ["cluster", "namespace"]

IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}


class Site:
    """The three playbooks for one cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder

    def play(self, playbook: str, *arguments: str, **variables: Any) -> RoleRun:
        given = {"site_kubeconfig": str(self._cluster.kubeconfig), "spread_cronjob_schedule": "0 0 1 1 *", **IMAGE, **variables}
        file = playbook if "." in playbook else REPOSITORY / "playbooks" / f"{playbook}.yml"
        return ansible_playbook(file, *arguments, "-e", json.dumps(given), folder=self._folder)


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    return Site(cluster, tmp_path)


def stats_of(run: RoleRun, name: str) -> dict[str, Any]:
    """The numbers that a playbook reports with set_stats."""
    found = re.search(r"^\s*RUN: (\{.*\})$", run.output, re.MULTILINE)
    assert found, run.output
    stats: dict[str, Any] = json.loads(found.group(1))[name]["localhost"]
    return stats


def test_install_repeat_verify_and_uninstall(cluster: Cluster, namespace: str, site: Site) -> None:
    before = site.play("verify")
    assert before.code == 2
    assert "Deployment kube-scheduling/kube-scheduling-rescuer is missing: run site.yml" in before.output
    assert "ClusterRole kube-scheduling-rebalancer is missing: run site.yml" in before.output
    assert "CronJob kube-scheduling/kube-scheduling-rebalancer is missing: run site.yml" in before.output

    first = site.play("site")
    assert first.code == 0, first.output
    numbers = stats_of(first, "kube_scheduling_site")
    assert numbers == {
        "ok": True, "plan": False, "changed": True, "installed": ["spread_cronjob", "critical_rescuer"], "error": ""
    }  # fmt: skip
    assert stats_of(first, "kube_scheduling_verify")["ok"] and "rebalance" not in first.output.partition("RUN:")[2]

    again = site.play("onprem.kube_scheduling.site", "--diff")
    assert again.code == 0 and again.changed == 0, again.output
    assert not stats_of(again, "kube_scheduling_site")["changed"]

    web = deployment(namespace, "web")
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    cluster.kubectl("--namespace", namespace, "annotate", "deployment,replicaset", "--all", f"{OUTCOME}=old", "collectdeployments=allow")
    # As a pass of the CronJob has left it.
    cluster.kubectl("--namespace", "kube-system", "create", "configmap", "kube-scheduling-rescue", "--save-config")
    gone = site.play("uninstall")
    assert gone.code == 0 and installed(cluster) | state_of(cluster) == set(), gone.output
    assert "Annotations that users have set" in gone.output and stats_of(gone, "kube_scheduling_uninstall")["outcomes"] == 2
    annotations = "jsonpath={.items[*].metadata.annotations}"
    left = cluster.kubectl("--namespace", namespace, "get", "deployment,replicaset", "--output", annotations)
    assert OUTCOME not in left and "collectdeployments" in left
    assert site.play("uninstall").changed == 0


def test_all_failed_checks_are_in_one_list_and_nothing_is_changed(cluster: Cluster, site: Site) -> None:
    nobody = cluster.service_account("nobody-installs", cluster_role=None)
    failed = site.play(
        "site",
        site_kubeconfig=str(nobody),
        spread_cronjob_settings={"max_worklods": 1},
        critical_rescuer_port=1,
    )
    assert failed.code == 2 and installed(cluster) == set()
    text = failed.output.partition("Nothing was changed. Failed checks:")[2]
    assert "spread_cronjob_settings: max_worklods is not a setting" in text, failed.output
    assert "critical_rescuer_port is 1: it must be a number, at least 1024" in text
    assert "the user may not patch clusterroles.rbac.authorization.k8s.io: grant the verb" in text
    assert "the user may not create cronjobs.batch in namespace kube-scheduling: grant the verb" in text


def test_an_image_that_cannot_be_built_is_refused_with_the_other_deliveries(
    cluster: Cluster, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/sock")
    image = {"service_image_reference": "", "service_image_engine": "docker", "service_image_archive_folder": str(tmp_path / "archives")}
    for given in (
        {"service_image_delivery": "archive", "site_node_hosts": "localhost", "service_image_containerd_socket": "/nowhere/sock"},
        {"service_image_delivery": "registry", "service_image_registry": "registry.example.org/platform"},
    ):
        failed = site.play("site", **image, **given)
        text = failed.output.partition("Nothing was changed. Failed checks:")[2]
        assert failed.code == 2 and "No container engine answers on the controller" in text, failed.output
        assert "service_image_delivery: registry" in text and "service_image_delivery: preloaded" in text
        # The checks of the node are in the same list.
        assert ("localhost has no socket /nowhere/sock" in text) == (given["service_image_delivery"] == "archive")
    assert installed(cluster) == set()
    # Other parts do not deliver the image.
    planned = site.play(
        "site", "--check", "--tags", "spread_cronjob", **image, service_image_delivery="archive", site_node_hosts="localhost"
    )
    assert planned.code == 0, planned.output


def test_check_mode_on_an_empty_cluster_and_wrong_hosts(cluster: Cluster, site: Site) -> None:
    planned = site.play("site", "--check", "--diff")
    assert planned.code == 0 and planned.changed and installed(cluster) == set(), planned.output
    assert "CronJob kube-scheduling-rebalancer" in planned.output

    no_nodes = site.play("site", service_image_delivery="archive", service_image_reference="")
    assert no_nodes.code == 2 and "site_node_hosts is kube_control_plane:kube_node, and no host matches it" in no_nodes.output
    wrong = site.play("site", site_kubeconfg="x")
    assert wrong.code == 2 and "There is no variable site_kubeconfg. The variables are site_cluster_hosts, " in wrong.output
    assert installed(cluster) == set()
