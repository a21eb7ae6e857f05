# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""uninstall.yml against a real API server."""

from __future__ import annotations

import json

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.playbooks.site_runs import EMPTY_NAMESPACE, LOCAL, Site, site, stats_of
from tests.integration.pushgateway import gateway, gateway_program, get, push
from tests.integration.roles.installed import installed
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import OUTCOME, deployment, stateful_set

__all__ = ["cluster", "gateway", "gateway_program", "namespace", "site"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_uninstall_deletes_the_metrics_that_a_pass_has_pushed_and_a_second_one_changes_nothing(
    cluster: Cluster, site: Site, gateway: str
) -> None:
    role = RolePlay("spread_cronjob", site.folder, {"spread_cronjob_kubeconfig": str(cluster.kubeconfig), "spread_cronjob_image": "x"})
    installed_run = role.run(spread_cronjob_schedule="0 0 1 1 *", spread_cronjob_settings={"pushgateway_url": gateway})
    assert installed_run.code == 0, installed_run.output
    push(gateway, "kube_scheduling_rebalance", "kube_scheduling_rebalance_failed 0\n")
    push(gateway, "backup", "backup_failed 0\n")

    # The address is that of the installed settings. With the variables of the inventory, the roles would only write files.
    rendering = {name: str(site.folder / "rendered") for name in ("spread_cronjob_render_to", "critical_rescuer_render_to")}
    inventory = site.folder / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"localhost": LOCAL}, "vars": rendering}}))
    gone = site.play("uninstall", "-i", str(inventory))
    assert gone.code == 0 and installed(cluster) == set(), gone.output
    metrics = get(f"{gateway}/metrics")
    assert "kube_scheduling_rebalance" not in metrics and "backup_failed" in metrics
    assert "No metrics in a Pushgateway." in gone.output
    assert "set site_node_exporter: true" in gone.output

    again = site.play("uninstall", spread_cronjob_settings={"pushgateway_url": "http://127.0.0.1:1"})
    assert again.code == 0 and again.changed == 0 and not stats_of(again, "kube_scheduling_uninstall")["changed"], again.output
    assert (
        "in the Pushgateway http://127.0.0.1:1, which could not be deleted (Status code was -1 and not [202]: Request failed: "
        in again.output
    )


def test_uninstall_keeps_objects_of_others_and_can_be_repeated_after_an_error(cluster: Cluster, namespace: str, site: Site) -> None:
    nobody = cluster.service_account("nobody-uninstalls", cluster_role=None)
    refused = site.play("uninstall", site_kubeconfig=str(nobody), critical_rescuer_render_to="rendered")
    text = refused.output.partition("Nothing was changed. Failed checks:")[2]
    assert refused.code == 2 and "the user may not delete cronjobs.batch in namespace kube-scheduling: grant the verb" in text
    assert "the user may not patch controllerrevisions.apps: grant the verb" in text, refused.output
    assert "critical_rescuer_render_to is set" in text, refused.output

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
    assert (
        not numbers["ok"]
        and numbers["removed"] == []
        and numbers["error"].startswith("Apply, render or delete the objects: ServiceAccount ")
    ), numbers
    cluster.kubectl(*account, json.dumps({"metadata": {"finalizers": None}}))

    again = site.play("uninstall")
    assert again.code == 0 and stats_of(again, "kube_scheduling_uninstall")["outcomes"] == 4, again.output
    for text in (
        "labels of this collection: NetworkPolicy kube-scheduling/kube-scheduling-rebalancer.",
        "ResourceQuota/users",
        "PersistentVolumeClaim/data",
        "metrics in a Pushgateway, if an earlier",
    ):
        assert text in again.output, again.output
    assert installed(cluster) == EMPTY_NAMESPACE | {"networkpolicies kube-scheduling/kube-scheduling-rebalancer"}
    annotations = "jsonpath={.items[*].metadata.annotations}"
    assert OUTCOME not in cluster.kubectl(
        "--namespace", namespace, "get", "deployment,replicaset,statefulset,controllerrevision", "-o", annotations
    )
    cluster.kubectl("delete", "namespace", "kube-scheduling")
