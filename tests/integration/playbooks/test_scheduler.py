# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""scheduler.yml and the scheduler in site.yml, verify.yml and uninstall.yml. The real programs run beside the simulated pods."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.playbooks.site_runs import SCHEDULER, Site, site, stats_of
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.installed_scheduler import DEPLOYMENT, NAME, NAMESPACE, kubelet
from tests.integration.roles.restricted_user import rules_of_scheduler, user_with
from tests.integration.workloads import IMAGE, wait_until

__all__ = ["cluster", "namespace", "site"]

# Each run of a role takes many seconds on a machine with other work.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_the_scheduler_is_checked_installed_tried_verified_and_uninstalled(cluster: Cluster, namespace: str, site: Site) -> None:
    nobody = cluster.service_account("nobody-schedules", cluster_role=None)
    refused = site.play("scheduler", site_kubeconfig=str(nobody), extended_scheduler_preset="safe")
    error = stats_of(refused, "kube_scheduling_scheduler")["error"]
    assert refused.code == 2 and error.startswith("Nothing was changed. Failed checks:"), refused.output
    assert "extended_scheduler_preset is safe, which needs Prometheus: set extended_scheduler_prometheus_urls" in error
    assert "the user may not create deployments.apps in namespace kube-system: grant the verb" in error

    planned = site.play("scheduler", "--check")
    assert planned.code == 0 and planned.changed and installed(cluster) == set(), planned.output
    assert stats_of(planned, "kube_scheduling_scheduler") == {**SCHEDULER, "plan": True, "cluster": identity_of(cluster), "bound": False}

    # The extender finds no node_exporter at the addresses of the simulated nodes, so all nodes have the same score.
    folder = site.folder / "programs"
    folder.mkdir()
    with user_with(cluster, rules_of_scheduler()) as kubeconfig, kubelet(cluster, folder):
        run = site.play("scheduler", site_kubeconfig=str(kubeconfig), extended_scheduler_http_timeout="20s")
        assert run.code == 0, run.output
        assert stats_of(run, "kube_scheduling_scheduler") == {**SCHEDULER, "plan": False, "cluster": identity_of(cluster), "bound": True}
        assert "network-traffic has bound a pod to worker-" in run.output, run.output
        again = site.play("scheduler", extended_scheduler_http_timeout="20s")
        assert again.code == 0 and again.changed == 0, again.output
    assert cluster.get("/api/v1/namespaces/default/pods")["items"] == []

    # Without the programs, no scheduler binds the pod.
    silent = site.play("scheduler", extended_scheduler_http_timeout="20s", extended_scheduler_wait_timeout=3)
    error = stats_of(silent, "kube_scheduling_scheduler")["error"]
    assert silent.code == 2 and "the profile network-traffic after 3 s (it has no Event)" in error, silent.output
    assert cluster.get("/api/v1/namespaces/default/pods")["items"] == []

    cluster.kubectl("--namespace", NAMESPACE, "set", "image", f"deployment/{NAME}", "scheduler=registry.k8s.io/kube-scheduler:v1.35.0")
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", f"deployment/{NAME}")
    cluster.kubectl("--namespace", NAMESPACE, "delete", "poddisruptionbudget", NAME)
    wanted = {"site_scheduler": True, "site_spread_cronjob": False, "site_critical_rescuer": False}
    verified = site.play("verify", **wanted)
    missing = stats_of(verified, "kube_scheduling_verify")["error"]
    remedy = "run the playbook onprem.kube_scheduling.site"
    assert verified.code == 2 and f"PodDisruptionBudget {NAMESPACE}/{NAME} is missing: {remedy}" in missing, verified.output
    differs = f"Deployment {NAMESPACE}/{NAME} differs from the variables in "
    assert differs in missing and "spec.template.spec.containers[0].image" in missing, missing
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "undo", f"deployment/{NAME}")
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", f"deployment/{NAME}")
    verified = site.play("verify", **wanted)
    missing = stats_of(verified, "kube_scheduling_verify")["error"]
    assert differs in missing and "spec.template.spec.volumes[0].configMap.name" in missing and "image" not in missing, missing

    pod = {"metadata": {"name": "waits"}, "spec": {"schedulerName": "network-traffic", "containers": [{"name": "main", "image": IMAGE}]}}
    cluster.api.post(f"/api/v1/namespaces/{namespace}/pods", pod)
    kept = site.play("uninstall")
    assert kept.code == 2 and f"would wait for it: Pod {namespace}/waits (network-traffic)" in kept.output, kept.output
    assert cluster.api.find(DEPLOYMENT) is not None
    cluster.kubectl("--namespace", namespace, "delete", "pod", "waits")
    gone = site.play("uninstall")
    assert gone.code == 0 and installed(cluster) == set(), gone.output
    assert "extended_scheduler" in stats_of(gone, "kube_scheduling_uninstall")["removed"]


def test_site_installs_the_scheduler_only_if_it_is_wanted(cluster: Cluster, site: Site) -> None:
    others = {"site_spread_cronjob": False, "site_critical_rescuer": False}
    without = site.play("site", **others)
    assert without.code == 0 and installed(cluster) == set(), without.output
    folder = site.folder / "programs"
    folder.mkdir()
    with kubelet(cluster, folder):
        run = site.play(
            "site", "--tags", "extended_scheduler", extended_scheduler_preset="pigeon", extended_scheduler_http_timeout="20s", **others
        )
    assert run.code == 0, run.output
    assert stats_of(run, "kube_scheduling_site")["installed"] == ["extended_scheduler"]
    assert stats_of(run, "kube_scheduling_verify")["ok"] and "network-traffic has bound a pod to worker-" in run.output
    wait_until(lambda: cluster.api.find(DEPLOYMENT) is not None, what="the Deployment")
    remove_all(cluster)
