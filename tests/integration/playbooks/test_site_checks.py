# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The checks of site.yml against a real API server."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.playbooks.site_runs import LOCAL, Site, site, stats_of
from tests.integration.roles.installed import installed

__all__ = ["cluster", "namespace", "site"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)


def test_all_failed_checks_are_in_one_list_and_nothing_is_changed(
    cluster: Cluster, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = cluster.service_account("nobody-installs", cluster_role=None)
    # The engine only answers.
    engine = tmp_path / "docker"
    engine.write_text("#!/bin/sh\necho amd64\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # Nothing listens on port 1.
    registry = {"service_image_delivery": "registry", "service_image_reference": "", "service_image_registry": "127.0.0.1:1/platform"}
    failed = site.play(
        "site",
        site_kubeconfig=str(nobody),
        spread_cronjob_settings={"max_worklods": 1},
        spread_cronjob_render_to=str(tmp_path / "rendered"),
        critical_rescuer_render_to=str(tmp_path / "rendered"),
        critical_rescuer_port=1,
        service_image_engine="docker",
        site_max_clock_skew="soon",
        **registry,
    )
    assert failed.code == 2 and installed(cluster) == set() and not (tmp_path / "rendered").exists()
    text = failed.output.partition("Nothing was changed. Failed checks:")[2]
    assert "spread_cronjob_settings: max_worklods is not a setting" in text and "site_max_clock_skew" in text, failed.output
    assert "the registry 127.0.0.1:1 does not answer on the controller" in text
    assert "spread_cronjob_render_to is set" in text and "critical_rescuer_render_to is set" in text
    assert "critical_rescuer_port is 1: " in text
    assert "the user may not patch clusterroles.rbac.authorization.k8s.io: grant the verb" in text
    assert "the user may not create cronjobs.batch in namespace kube-scheduling: grant the verb" in text


@pytest.mark.full
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
        assert failed.code == 2 and "No container engine" in text, failed.output
        assert "service_image_delivery: registry" in text and "service_image_delivery: preloaded" in text
        # The checks of the node are in the same list.
        assert ("localhost has no socket /nowhere/sock" in text) == (given["service_image_delivery"] == "archive")
    assert installed(cluster) == set()
    # Other parts do not deliver the image.
    planned = site.play(
        "site", "--check", "--tags", "spread_cronjob", **image, service_image_delivery="archive", site_node_hosts="localhost"
    )
    assert planned.code == 0, planned.output


@pytest.mark.full
def test_check_mode_on_an_empty_cluster_and_wrong_hosts(cluster: Cluster, site: Site) -> None:
    planned = site.play("site", "--check", "--diff")
    assert planned.code == 0 and planned.changed and installed(cluster) == set(), planned.output
    assert "CronJob kube-scheduling/kube-scheduling-rebalancer" in planned.output

    no_nodes = site.play("site", service_image_delivery="archive", service_image_reference="")
    assert no_nodes.code == 2 and "site_node_hosts is kube_control_plane:kube_node, and no host matches it" in no_nodes.output
    numbers = stats_of(no_nodes, "kube_scheduling_site")
    assert not numbers["ok"] and numbers["installed"] == [] and "site_node_hosts is " in numbers["error"], numbers
    wrong = site.play("site", site_kubeconfg="x")
    assert wrong.code == 2 and "There is no variable site_kubeconfg; the nearest is site_kubeconfig." in wrong.output
    assert installed(cluster) == set()


DAY_S = 86_400


@pytest.fixture(scope="module")
def error(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The error of a run with objects that the API server refuses.

    The lowest versions are raised, and the clock of the controller is a day ahead, because the cluster is new and has the same clock.
    """
    reached = {"cluster": {}, "line": "", "version": "v1.36.0", "kubernetes_core": "6.2.0", "clock_skew_s": DAY_S}
    failed = Site(lab_cluster, tmp_path_factory.mktemp("checks")).play(
        "site",
        "--limit", "localhost",
        __site_minimum_versions={"ansible_core": "99.1", "kubernetes_core": "99.2", "kubernetes": "99.3"},
        __site_cluster=reached,
        spread_cronjob_schedule="every minute",
        spread_cronjob_time_zone="Mars/Olympus",
        spread_cronjob_labels={"team": 7},
        critical_rescuer_pod_monitor="present",
        critical_rescuer_priority_class="Not A Name",
        site_namespace="Kube_Scheduling",
        spread_cronjob_settings={"max_parallel": 2},
    )  # fmt: skip
    assert failed.code == 2 and installed(lab_cluster) == set(), failed.output
    text: str = stats_of(failed, "kube_scheduling_site")["error"]
    assert text.startswith("Nothing was changed. Failed checks:\n"), failed.output
    return text


@pytest.mark.parametrize(
    "text",
    [
        "Namespace Kube_Scheduling is refused: ",
        "CronJob kube-scheduling-rebalancer in namespace Kube_Scheduling is refused: ",
        "PodMonitor kube-scheduling-rescuer in namespace Kube_Scheduling is refused: ",
    ],
)
def test_the_objects_are_tried_before_anything_is_changed(text: str, error: str) -> None:
    """The namespace does not exist, so the API server tries the objects in another one."""
    assert text in error, error


def test_versions_and_clocks_of_the_cluster_are_checked(error: str) -> None:
    for text in ("update it to 99.1", "update it to 99.2", "update it to 99.3"):
        assert text in error, error
    assert f"the clock of the controller is {DAY_S} s ahead of the clock of the API server: " in error, error


@pytest.mark.full
def test_one_node_for_two_replicas_is_enough_and_static_pods_need_a_free_port(cluster: Cluster, site: Site) -> None:
    nodes = len(cluster.get("/api/v1/nodes")["items"])
    first = site.play("site", critical_rescuer_replicas=nodes + 1, spread_cronjob_form="deployment", site_namespace="123")
    assert first.code == 0, first.output
    assert f"Deployment 123/kube-scheduling-rescuer: {nodes} of {nodes + 1} replicas are available. That is enough." in first.output
    again = site.play("site", critical_rescuer_replicas=nodes + 1, spread_cronjob_form="deployment", site_namespace="123")
    assert again.code == 0 and again.changed == 0, again.output

    hosts = {"kube_control_plane": {"hosts": {"node-1": LOCAL, "node-2": {"ansible_host": "127.0.0.1", "ansible_port": 1}}}}
    inventory = site.folder / "hosts.yml"
    inventory.write_text(json.dumps(hosts))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        given = {"critical_rescuer_form": "static_pod", "critical_rescuer_port": port, "critical_rescuer_static_become": False}
        failed = site.play("site", "-i", str(inventory), "--tags", "preflight", **given)
    assert failed.code == 2, failed.output
    text = stats_of(failed, "kube_scheduling_site")["error"]
    assert f"node-1: another program uses port {port}, which the static pod needs" in text, text
    assert "node-2: it is not known whether port " in text, text

    gone = site.play("uninstall", site_namespace="123")
    assert gone.code == 0, gone.output


@pytest.mark.full
def test_missing_rights_that_only_some_runs_need_are_named(cluster: Cluster, site: Site) -> None:
    """Two hosts have the same cluster: one for the static pods, and one for a Deployment with a PodMonitor."""
    nobody = cluster.service_account("nobody-installs-more", cluster_role=None)
    static = {
        "critical_rescuer_form": "static_pod",
        "critical_rescuer_static_hosts": ["static"],
        "critical_rescuer_static_become": False,
        "critical_rescuer_settings": {"namespaces": "kube-system, monitoring"},
    }
    hosts = {"static": {**LOCAL, **static}, "deployment": {**LOCAL, "critical_rescuer_pod_monitor": "present"}}
    inventory = site.folder / "hosts.yml"
    inventory.write_text(json.dumps({"kube": {"hosts": hosts}}))
    failed = site.play("site", "-i", str(inventory), "--tags", "run_now", site_cluster_hosts="kube", site_kubeconfig=str(nobody))
    text = failed.output.partition("Nothing was changed. Failed checks:")[2]
    assert failed.code == 2 and installed(cluster) == set(), failed.output
    for right in (
        "create roles.rbac.authorization.k8s.io in namespace monitoring",
        "create rolebindings.rbac.authorization.k8s.io in namespace monitoring",
        "create podmonitors.monitoring.coreos.com in namespace kube-scheduling",
        "get configmaps named kubeadm-config in namespace kube-system",
        "list pods in namespace kube-system",
        "create jobs.batch in namespace kube-scheduling",
    ):
        assert f"the user may not {right}: grant the verb" in text, (right, failed.output)
