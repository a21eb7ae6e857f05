# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""site.yml, verify.yml and uninstall.yml against a real API server, whose nodes run pods as simulated ones."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of, line_of
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.playbooks.archived_image import containerd_client, saved_image
from tests.integration.playbooks.held_node import hold_node, is_held
from tests.integration.playbooks.site_runs import EMPTY_NAMESPACE, LOCAL, Site, site, stats_of
from tests.integration.roles.installed import installed, remove_all, state_of
from tests.integration.roles.restricted_user import restricted_user
from tests.integration.workloads import OUTCOME, deployment, pod_uids, restart, restarted_at, wait_rolled_out

__all__ = ["cluster", "namespace", "site"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_install_repeat_verify_and_uninstall(cluster: Cluster, namespace: str, site: Site) -> None:
    others = {name for name in state_of(cluster) if name.endswith("-scheduler")}  # the Lease of a test before
    # The second one of these hosts wants neither program. Both have the same cluster.
    removed = {**LOCAL, "spread_cronjob_state": "absent", "critical_rescuer_state": "absent"}
    hosts = site.folder / "hosts.yml"
    hosts.write_text(json.dumps({"all": {"hosts": {"localhost": LOCAL, "second": removed}}}))
    before = site.play("verify", "-i", str(hosts), site_cluster_hosts="localhost:second")
    assert before.code == 2 and stats_of(before, "kube_scheduling_verify", "second")["ok"], before.output
    programs = stats_of(before, "kube_scheduling_verify")["error"].splitlines()
    missing = [
        name for line in programs for name in line.partition("run the playbook onprem.kube_scheduling.site. Missing: ")[2].split(", ")
    ]
    for name in (
        "Deployment kube-scheduling/kube-scheduling-rescuer",
        "ClusterRole kube-scheduling-rebalancer",
        "CronJob kube-scheduling/kube-scheduling-rebalancer",
    ):
        assert name in missing, before.output

    # Two controllers at the same time, for a user with exactly the rights for which the checks ask.
    (site.folder / "second").mkdir()
    with restricted_user(cluster) as kubeconfig, ThreadPoolExecutor(2) as pool:
        controllers = (site, Site(cluster, site.folder / "second"))
        runs = list(pool.map(lambda controller: controller.play("site", site_kubeconfig=str(kubeconfig)), controllers))
    for run in runs:
        assert run.code == 0, run.output
        numbers = stats_of(run, "kube_scheduling_site")
        assert numbers == {
            "ok": True, "plan": False, "cluster": identity_of(cluster), "changed": numbers["changed"],
            "installed": ["spread_cronjob", "critical_rescuer"], "error": "",
        }  # fmt: skip
        assert f"{line_of(cluster)}\n" in run.output
        assert stats_of(run, "kube_scheduling_verify")["ok"] and "rebalance" not in run.output.partition("RUN:")[2]
        assert "the CronJob start, because they cannot" in run.output, run.output
    assert any(stats_of(run, "kube_scheduling_site")["changed"] for run in runs)

    planned = site.play("onprem.kube_scheduling.site", "--check", "--diff")
    assert planned.code == 0 and planned.changed == 0, planned.output
    again = site.play(site.importing("onprem.kube_scheduling.site"))
    assert again.code == 0 and again.changed == 0, again.output
    assert not stats_of(again, "kube_scheduling_site")["changed"] and stats_of(again, "kube_scheduling_verify")["ok"]

    add_waiting_pod(cluster)
    no_nodes = site.play("verify", service_image_delivery="archive", service_image_reference="")
    cluster.kubectl("--namespace", "kube-scheduling", "delete", "pod", "waiting")
    # The CronJob and the Deployment have another image.
    assert no_nodes.code == 2 and stats_of(no_nodes, "kube_scheduling_verify")["missing"] == 4, no_nodes.output
    assert "Pod kube-scheduling/waiting of the CronJob does not start (ErrImageNeverPull): see kubectl " in no_nodes.output
    assert "site_node_hosts is kube_control_plane:kube_node, and no host matches it" in no_nodes.output

    nodes = {"node-1": {**LOCAL, "service_image_ctr": ["/nowhere/ctr"]}, "node-2": {"ansible_port": 1}}
    reference, image = saved_image(site.folder)
    for name, labels in (("node-3", None), ("node-4", "-")):
        nodes[name] = {**LOCAL, "service_image_ctr": containerd_client(site.folder, name, reference=reference, labels=labels)}
    inventory = site.folder / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes, "vars": {"ansible_host": "127.0.0.1"}}}))
    without_image = site.play("verify", "-i", str(inventory), **image)
    assert without_image.code == 2 and stats_of(without_image, "kube_scheduling_verify")["missing"] == 6, without_image.output
    assert "node-1: /nowhere/ctr cannot read the images: " in without_image.output
    assert "node-2 has failed or could not be reached, so" in without_image.output
    own_image = r"the image kube-scheduling\.onprem/services:\S+"
    remedy = "run the playbook onprem.kube_scheduling.site"
    assert re.search(rf"node-3 does not have {own_image}: {remedy}", without_image.output), without_image.output
    assert re.search(rf"node-4 has {own_image}, which is not pinned, .*: {remedy}", without_image.output)

    limited = site.play("verify", "-i", str(inventory), "--limit", "node-1", **image)
    assert limited.code == 2 and "node-1: /nowhere/ctr cannot read the images: " in limited.output, limited.output

    web = deployment(namespace, "web")
    cluster.apply(web)
    wait_rolled_out(cluster, web)
    restart(cluster, web)
    wait_rolled_out(cluster, web)
    restarted, pods = restarted_at(cluster, web), pod_uids(cluster, web)
    own = "kube-scheduling.onprem/spread=allow"
    cluster.kubectl("--namespace", namespace, "annotate", "deployment,replicaset", "--all", f"{OUTCOME}=old", own)
    held = hold_node(cluster)
    here = installed(cluster)
    planned = site.play("uninstall", "--check")
    assert planned.code == 0 and planned.changed and installed(cluster) == here, planned.output
    for text in (
        "CronJob kube-scheduling/kube-scheduling-rebalancer",
        f"the outcome on Deployment {namespace}/web",
        "Namespace kube-scheduling",
        f"{held}, which is held for",
    ):
        assert re.search(rf"Would be (deleted|removed|released): .*{text}", planned.output), planned.output
    with restricted_user(cluster, uninstalls=True) as kubeconfig:
        gone = site.play("uninstall", site_kubeconfig=str(kubeconfig))
    assert not is_held(cluster, held), gone.output
    # The user may not list all kinds, so the namespace stays.
    assert gone.code == 0 and installed(cluster) | state_of(cluster) <= EMPTY_NAMESPACE | others, gone.output
    assert "Namespace kube-scheduling is not deleted, because " in gone.output
    unread = r"Ingress \(cannot list ingresses in namespace kube-scheduling: ingresses\.networking\.k8s\.io is forbidden"
    assert re.search(unread, gone.output), gone.output
    # The Deployment and both ReplicaSets
    numbers = stats_of(gone, "kube_scheduling_uninstall")
    assert numbers == {
        "ok": True, "plan": False, "cluster": identity_of(cluster), "changed": True, "removed": ["spread_cronjob", "critical_rescuer"],
        "outcomes": 3, "error": "",
    }  # fmt: skip
    assert "Annotations that users have set" in gone.output
    assert site.play("uninstall").code == 0 and installed(cluster) == set()
    annotations = "jsonpath={.items[*].metadata.annotations}"
    left = cluster.kubectl("--namespace", namespace, "get", "deployment,replicaset", "--output", annotations)
    assert OUTCOME not in left and "kube-scheduling.onprem/spread" in left
    assert restarted_at(cluster, web) == restarted is not None and pod_uids(cluster, web) == pods


def add_waiting_pod(cluster: Cluster) -> None:
    """Create a pod of the CronJob whose image cannot be pulled. It has no node, so its status does not change."""
    cronjob = cluster.get("/apis/batch/v1/namespaces/kube-scheduling/cronjobs/kube-scheduling-rebalancer")
    template = cronjob["spec"]["jobTemplate"]["spec"]["template"]
    pod = {
        "metadata": {"name": "waiting", "labels": template["metadata"]["labels"]},
        "spec": {**template["spec"], "schedulerName": "none"},
    }
    cluster.api.post("/api/v1/namespaces/kube-scheduling/pods", pod)
    container = {"name": template["spec"]["containers"][0]["name"], "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    status = {"containerStatuses": [{**container, "state": {"waiting": {"reason": "ErrImageNeverPull"}}}]}
    arguments = ("--subresource=status", "--patch", json.dumps({"status": status}))
    cluster.kubectl("--namespace", "kube-scheduling", "patch", "pod", "waiting", *arguments)


def test_nodes_that_fail_and_that_are_down_do_not_stop_the_others_and_are_named_at_the_end(
    cluster: Cluster, site: Site, tmp_path: Path
) -> None:
    reference, image = saved_image(tmp_path)
    good = {**LOCAL, "service_image_ctr": containerd_client(tmp_path, "ctr", reference=reference)}
    fails = {**good, "service_image_ctr": containerd_client(tmp_path, "failing-ctr", reference=reference, fails=True)}
    nodes = {"node-1": fails, "node-2": good, "node-3": {"ansible_port": 1}, "node-4": good}
    inventory = tmp_path / "nodes.yml"
    inventory.write_text(json.dumps({"kube_node": {"hosts": nodes, "vars": {"ansible_host": "127.0.0.1"}}}))
    all_failed = site.play("site", "-i", str(inventory), "--limit", "localhost:node-1", **image)
    numbers = stats_of(all_failed, "kube_scheduling_site")
    assert all_failed.code == 2 and not numbers["ok"] and installed(cluster) == set(), all_failed.output
    assert re.search(r"no node has got .*:\nnode-1: .*input/output error", numbers["error"]), numbers

    # What is not wanted is not verified.
    run = site.play("site", "-i", str(inventory), site_serial=2, critical_rescuer_state="absent", **image)
    assert run.code != 0, run.output
    numbers = stats_of(run, "kube_scheduling_site")
    assert numbers["ok"] and numbers["installed"] == ["spread_cronjob"], run.output
    assert "cronjobs kube-scheduling/kube-scheduling-rebalancer" in installed(cluster)
    verified = stats_of(run, "kube_scheduling_verify")
    assert verified["missing"] == 2, run.output
    first, second = sorted(verified["error"].splitlines())
    assert first.startswith("node-1 did not get the image: ") and first.endswith("input/output error"), run.output
    assert second.startswith("node-3 ") and "could not be reached" in second, run.output
    remove_all(cluster)
