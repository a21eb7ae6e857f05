# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""site.yml, verify.yml and uninstall.yml against a real API server, whose nodes run pods as simulated ones."""

from __future__ import annotations

import json
import re
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.services.image_context import describe

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.pushgateway import gateway, gateway_program, get, push
from tests.integration.roles.installed import installed, remove_all, state_of
from tests.integration.roles.restricted_user import restricted_user
from tests.integration.roles.role_play import RolePlay, RoleRun, ansible_playbook
from tests.integration.workloads import OUTCOME, deployment, pod_uids, restarted_at, stateful_set, wait_rolled_out

__all__ = ["cluster", "gateway", "gateway_program", "namespace"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
IMAGE = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}
EMPTY_NAMESPACE = {
    "namespaces /kube-scheduling",
    "configmaps kube-scheduling/kube-root-ca.crt",
    "serviceaccounts kube-scheduling/default",
}
PIN = "io.cri-containerd.pinned=pinned"


class Site:
    """The three playbooks for one cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self.folder = cluster, folder

    def play(self, playbook: str, *arguments: str, **variables: Any) -> RoleRun:
        given = {"site_kubeconfig": str(self._cluster.kubeconfig), "spread_cronjob_schedule": "0 0 1 1 *", **IMAGE, **variables}
        file = playbook if "." in playbook else REPOSITORY / "playbooks" / f"{playbook}.yml"
        return ansible_playbook(file, *arguments, "-e", json.dumps(given), folder=self.folder)

    def importing(self, playbook: str) -> str:
        """Return a playbook in another folder that imports this one."""
        file = self.folder / "cluster.yml"
        file.write_text(json.dumps([{"ansible.builtin.import_playbook": playbook}]))
        return str(file)


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
    assert before.code == 2, before.output
    assert "Deployment kube-scheduling/kube-scheduling-rescuer is missing: run site.yml" in before.output, before.output
    assert "ClusterRole kube-scheduling-rebalancer is missing: run site.yml" in before.output
    assert "CronJob kube-scheduling/kube-scheduling-rebalancer is missing: run site.yml" in before.output

    # Two controllers at the same time, for a user with exactly the rights for which the checks ask.
    (site.folder / "second").mkdir()
    with restricted_user(cluster) as kubeconfig, ThreadPoolExecutor(2) as pool:
        controllers = (site, Site(cluster, site.folder / "second"))
        runs = list(pool.map(lambda controller: controller.play("site", site_kubeconfig=str(kubeconfig)), controllers))
    for run in runs:
        assert run.code == 0, run.output
        numbers = stats_of(run, "kube_scheduling_site")
        assert numbers == {
            "ok": True, "plan": False, "changed": numbers["changed"], "installed": ["spread_cronjob", "critical_rescuer"], "error": ""
        }  # fmt: skip
        assert stats_of(run, "kube_scheduling_verify")["ok"] and "rebalance" not in run.output.partition("RUN:")[2]
    assert any(stats_of(run, "kube_scheduling_site")["changed"] for run in runs)

    planned = site.play("onprem.kube_scheduling.site", "--check", "--diff")
    assert planned.code == 0 and planned.changed == 0, planned.output
    again = site.play(site.importing("onprem.kube_scheduling.site"))
    assert again.code == 0 and again.changed == 0, again.output
    assert not stats_of(again, "kube_scheduling_site")["changed"] and stats_of(again, "kube_scheduling_verify")["ok"]

    no_nodes = site.play("verify", service_image_delivery="archive", service_image_reference="")
    assert no_nodes.code == 2 and stats_of(no_nodes, "kube_scheduling_verify")["missing"] == 1, no_nodes.output
    assert "site_node_hosts is kube_control_plane:kube_node, and no host matches it, so the image is not verified" in no_nodes.output

    nodes = {"node-1": {"ansible_connection": "local", "service_image_ctr": ["/nowhere/ctr"]}, "node-2": {"ansible_port": 1}}
    inventory = site.folder / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes, "vars": {"ansible_host": "127.0.0.1"}}}))
    without_image = site.play("verify", "-i", str(inventory), service_image_delivery="archive", service_image_reference="")
    assert without_image.code == 2 and stats_of(without_image, "kube_scheduling_verify")["missing"] == 2, without_image.output
    assert "node-1: /nowhere/ctr cannot read the images: " in without_image.output
    assert "node-2 cannot be reached, so it is not known whether it has the image: " in without_image.output

    limited = site.play("verify", "-i", str(inventory), "--limit", "node-1", service_image_delivery="archive", service_image_reference="")
    assert limited.code == 2 and "node-1: /nowhere/ctr cannot read the images: " in limited.output, limited.output

    web = deployment(namespace, "web")
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    cluster.kubectl("--namespace", namespace, "rollout", "restart", "deployment/web")
    wait_rolled_out(cluster, web)
    restarted, pods = restarted_at(cluster, web), pod_uids(cluster, web)
    cluster.kubectl("--namespace", namespace, "annotate", "deployment,replicaset", "--all", f"{OUTCOME}=old", "collectdeployments=allow")
    # As a pass of the CronJob has left it.
    cluster.kubectl("--namespace", "kube-system", "create", "configmap", "kube-scheduling-rescue", "--save-config")
    here = installed(cluster)
    planned = site.play("uninstall", "--check")
    assert planned.code == 0 and planned.changed and installed(cluster) == here, planned.output
    for text in (
        "CronJob kube-scheduling/kube-scheduling-rebalancer",
        f"the outcome on Deployment {namespace}/web",
        "Namespace kube-scheduling",
    ):
        assert re.search(rf"Would be (deleted|removed): .*{text}", planned.output), planned.output
    with restricted_user(cluster, uninstalls=True) as kubeconfig:
        gone = site.play("uninstall", site_kubeconfig=str(kubeconfig))
    # The user may not list all kinds, so the namespace stays.
    assert gone.code == 0 and installed(cluster) | state_of(cluster) <= EMPTY_NAMESPACE, gone.output
    assert "Namespace kube-scheduling is not deleted, because it has objects of others: " in gone.output
    assert "Ingress (cannot be listed: ingresses.networking.k8s.io is forbidden: " in gone.output
    # The Deployment and both ReplicaSets
    numbers = stats_of(gone, "kube_scheduling_uninstall")
    assert numbers == {
        "ok": True, "plan": False, "changed": True, "removed": ["spread_cronjob", "critical_rescuer"], "outcomes": 3, "error": ""
    }  # fmt: skip
    assert "Annotations that users have set" in gone.output
    assert site.play("uninstall").code == 0 and installed(cluster) == set()
    annotations = "jsonpath={.items[*].metadata.annotations}"
    left = cluster.kubectl("--namespace", namespace, "get", "deployment,replicaset", "--output", annotations)
    assert OUTCOME not in left and "collectdeployments" in left
    assert restarted_at(cluster, web) == restarted is not None and pod_uids(cluster, web) == pods


def test_uninstall_deletes_the_metrics_that_a_pass_has_pushed_and_a_second_one_changes_nothing(
    cluster: Cluster, site: Site, gateway: str
) -> None:
    role = RolePlay("spread_cronjob", site.folder, {"spread_cronjob_kubeconfig": str(cluster.kubeconfig), "spread_cronjob_image": "x"})
    installed_run = role.run(spread_cronjob_schedule="0 0 1 1 *", spread_cronjob_settings={"pushgateway_url": gateway})
    assert installed_run.code == 0, installed_run.output
    push(gateway, "kube_scheduling_rebalance", "kube_scheduling_rebalance_failed 0\n")
    push(gateway, "backup", "backup_failed 0\n")

    # The address is that of the installed settings.
    gone = site.play("uninstall")
    assert gone.code == 0 and installed(cluster) == set(), gone.output
    metrics = get(f"{gateway}/metrics")
    assert "kube_scheduling_rebalance" not in metrics and "backup_failed" in metrics
    assert "No metrics in a Pushgateway." in gone.output

    again = site.play("uninstall", spread_cronjob_settings={"pushgateway_url": "http://127.0.0.1:1"})
    assert again.code == 0 and again.changed == 0 and not stats_of(again, "kube_scheduling_uninstall")["changed"], again.output
    assert (
        "in the Pushgateway http://127.0.0.1:1, which could not be deleted (Status code was -1 and not [202]: Request failed: "
        in again.output
    )


def test_uninstall_keeps_objects_of_others_and_can_be_repeated_after_an_error(cluster: Cluster, namespace: str, site: Site) -> None:
    nobody = cluster.service_account("nobody-uninstalls", cluster_role=None)
    refused = site.play("uninstall", site_kubeconfig=str(nobody))
    text = refused.output.partition("Nothing was changed. Failed checks:")[2]
    assert refused.code == 2 and "the user may not delete cronjobs.batch in namespace kube-scheduling: grant the verb" in text
    assert "the user may not patch controllerrevisions.apps: grant the verb" in text, refused.output

    role = RolePlay("spread_cronjob", site.folder, {"spread_cronjob_kubeconfig": str(cluster.kubeconfig), "spread_cronjob_image": "x"})
    assert role.run(spread_cronjob_schedule="0 0 1 1 *").code == 0
    place = ("--namespace", "kube-scheduling")
    # A user's NetworkPolicy under the name of the role, settings that are no YAML, and objects of the user. The claim has all our labels.
    cluster.kubectl(*place, "label", "networkpolicy", "kube-scheduling-rebalancer", "app.kubernetes.io/managed-by=user", "--overwrite")
    cluster.kubectl(*place, "patch", "configmap", "kube-scheduling-rebalancer", "--patch", json.dumps({"data": {"config.yml": "a: [b"}}))
    labels = cluster.get("/apis/batch/v1/namespaces/kube-scheduling/cronjobs/kube-scheduling-rebalancer")["metadata"]["labels"]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "data", "namespace": "kube-scheduling", "labels": labels}
    quota = {"name": "users", "namespace": "kube-scheduling"}
    named = [deployment(namespace, "123", 0), stateful_set(namespace, "null", 0)]
    for workload in named:
        workload["metadata"]["annotations"] = {OUTCOME: "old"}
    cluster.apply([
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota, "spec": {"hard": {"pods": "100"}}},
        *named,
    ])  # fmt: skip
    taken = role.run()
    assert taken.code == 2 and "Nothing was applied." in taken.output, taken.output
    assert "NetworkPolicy kube-scheduling/kube-scheduling-rebalancer. Delete or rename them." in taken.output

    # The deletion of the service account waits for the finalizer, which ends the playbook in the middle.
    account = (*place, "patch", "serviceaccount", "kube-scheduling-rebalancer", "--type=merge", "--patch")
    cluster.kubectl(*account, json.dumps({"metadata": {"finalizers": ["example.org/slow"]}}))
    failed = site.play("uninstall", spread_cronjob_wait_timeout=2)
    numbers = stats_of(failed, "kube_scheduling_uninstall")
    assert failed.code == 2 and "Run the playbook again" in failed.output, failed.output
    assert not numbers["ok"] and numbers["removed"] == [] and numbers["error"].startswith("Delete the objects: "), numbers
    cluster.kubectl(*account, json.dumps({"metadata": {"finalizers": None}}))

    again = site.play("uninstall")
    assert again.code == 0 and stats_of(again, "kube_scheduling_uninstall")["outcomes"] == 4, again.output
    for text in (
        "Objects without the labels of this collection: NetworkPolicy kube-scheduling/kube-scheduling-rebalancer.",
        "ResourceQuota/users",
        "PersistentVolumeClaim/data",
        "The metrics in a Pushgateway, if an earlier run that did not end",
    ):
        assert text in again.output, again.output
    assert installed(cluster) == EMPTY_NAMESPACE | {"networkpolicies kube-scheduling/kube-scheduling-rebalancer"}
    annotations = "jsonpath={.items[*].metadata.annotations}"
    assert OUTCOME not in cluster.kubectl(
        "--namespace", namespace, "get", "deployment,replicaset,statefulset,controllerrevision", "-o", annotations
    )
    cluster.kubectl("delete", "namespace", "kube-scheduling")


def containerd_client(folder: Path, name: str, *, reference: str, fails: bool = False) -> list[str]:
    """Return a command like ``ctr`` of a node that has the image, and whose list of images fails with ``fails``."""
    program = folder / name
    listed = "echo 'input/output error' >&2; exit 1" if fails else f"echo REF; echo '{reference} type sha256:0 1 MiB linux/amd64 {PIN}'"
    program.write_text(f"""#!/bin/sh
case "$*" in
  *version) printf 'Server:\\n  Version:  2.0.0\\n' ;;
  *"images check"*) echo '{reference} type sha256:0 complete (1/1) 1 MiB/1 MiB true' ;;
  *"images list"*) {listed} ;;
  *"containers list"*) echo CONTAINER ;;
  *) exit 1 ;;
esac
""")
    program.chmod(0o755)
    return [str(program)]


def test_nodes_that_fail_and_that_are_down_do_not_stop_the_others_and_are_named_at_the_end(
    cluster: Cluster, site: Site, tmp_path: Path
) -> None:
    tag = describe(base="example.org/python", python="3.13", architecture="amd64")["tag"]
    archive = tmp_path / f"kube-scheduling-services-{tag}-amd64.tar"
    archive.write_text("It is not imported, because the nodes have it.")
    Path(f"{archive}.sha256").write_text(f"{sha256(archive.read_bytes()).hexdigest()}  {archive.name}\n")
    reference = f"kube-scheduling.onprem/services:{tag}"
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    good = {**here, "service_image_ctr": containerd_client(tmp_path, "ctr", reference=reference)}
    fails = {**good, "service_image_ctr": containerd_client(tmp_path, "failing-ctr", reference=reference, fails=True)}
    nodes = {"node-1": fails, "node-2": good, "node-3": {"ansible_port": 1}, "node-4": good}
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes, "vars": {"ansible_host": "127.0.0.1"}}}))
    image = {
        "service_image_delivery": "archive",
        "service_image_reference": "",
        "service_image_base": "example.org/python",
        "service_image_python_version": "3.13",
        "service_image_archive_folder": str(tmp_path),
        "service_image_containerd_socket": str(tmp_path),
    }
    run = site.play("site", "-i", str(inventory), site_serial=2, **image)
    assert run.code != 0 and "input/output error" in run.output, run.output
    assert stats_of(run, "kube_scheduling_site")["ok"] and "cronjobs kube-scheduling/kube-scheduling-rebalancer" in installed(cluster)
    verified = stats_of(run, "kube_scheduling_verify")
    assert verified["missing"] == 2, run.output
    for name, text in zip(("node-1", "node-3"), sorted(verified["error"].splitlines()), strict=True):
        assert text.startswith(f"{name} has failed or could not be reached"), run.output
    remove_all(cluster)


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


def test_the_objects_are_tried_before_anything_is_changed_and_all_failed_checks_are_in_the_numbers(cluster: Cluster, site: Site) -> None:
    """The namespace does not exist, so the API server tries the objects in another one."""
    failed = site.play(
        "site",
        "--limit", "localhost",
        spread_cronjob_schedule="every minute",
        spread_cronjob_time_zone="Mars/Olympus",
        spread_cronjob_labels={"team": 7},
        critical_rescuer_pod_monitor="present",
        critical_rescuer_priority_class="Not A Name",
        site_max_clock_skew="soon",
        site_namespace="Kube_Scheduling",
        spread_cronjob_settings={"max_parallel": 2},
    )  # fmt: skip
    assert failed.code == 2 and installed(cluster) == set(), failed.output
    text = stats_of(failed, "kube_scheduling_site")["error"]
    assert text.startswith("Nothing was changed. Failed checks:\n"), failed.output
    for part in (
        "site_max_clock_skew",
        "Namespace Kube_Scheduling is refused: ",
        "CronJob kube-scheduling-rebalancer in namespace Kube_Scheduling is refused: ",
        "PodMonitor kube-scheduling-rescuer in namespace Kube_Scheduling is refused: ",
    ):
        assert part in text, (part, text)


def test_versions_and_clocks_of_the_cluster_are_checked(cluster: Cluster, site: Site) -> None:
    """The lowest versions are raised and the largest difference is lowered, because the cluster itself is new and has the same clock."""
    versions = {"ansible_core": "99.1", "kubernetes": "99.3"}
    failed = site.play(
        "site", "--tags", "preflight", __site_minimum_versions=versions, __site_max_clock_skew_s=-1, spread_cronjob_schedule="x"
    )
    text = stats_of(failed, "kube_scheduling_site")["error"]
    for part in ("update it to 99.1", "update it to 99.3", "s behind the clock", "CronJob kube-scheduling-rebalancer"):
        assert part in text, (part, text)
    assert failed.code == 2 and installed(cluster) == set()


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
        failed = site.play(
            "site", "-i", str(inventory), "--tags", "preflight", critical_rescuer_form="static_pod", critical_rescuer_port=port
        )
    assert failed.code == 2, failed.output
    text = stats_of(failed, "kube_scheduling_site")["error"]
    assert f"node-1: another program uses port {port}, which the static pod needs" in text, text
    assert "node-2: it is not known whether port " in text, text

    gone = site.play("uninstall", site_namespace="123")
    assert gone.code == 0, gone.output
