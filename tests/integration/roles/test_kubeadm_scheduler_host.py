# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The module kubeadm_scheduler_host as a task, and the plan of its role. No kubelet runs, so nothing is started."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.integration.roles.host_cases import play_cases
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import IMAGE
from tests.unit.scheduler_config.kubeadm_texts import MANIFEST, V1BETA4

LOCAL: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
LOST: dict[str, Any] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def task(state: str, **options: Any) -> dict[str, Any]:
    module = "onprem.kube_scheduling.kubeadm_scheduler_host"
    return {module: {"state": state, "host": "{{ inventory_hostname }}", **options}, "register": state}


def test_hosts_are_read_and_a_lost_one_is_named_and_a_failure_restores_the_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "manifests" / "kube-scheduler.yaml"
    manifest.parent.mkdir()
    manifest.write_text(MANIFEST)
    places = {"manifest_path": str(manifest), "folder": str(tmp_path / "role")}
    wish: dict[str, Any] = {"folder": f"{tmp_path}/role/scheduler", "manifest_path": str(manifest), "kubernetes_version": "1.36.3"}
    wish["profiles"] = [{"schedulerName": "network-traffic"}]
    hosts = "{inventory_hostname: read | combine({'node': 'node-of-a-test'})}"
    planned = f"({hosts} | onprem.kube_scheduling.kubeadm_schedulers(**wish)).hosts[inventory_hostname]"
    tasks = [
        task("read", **places),
        {"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} {{ read.problems | join }}"}},
        {**task("present", **places, plan=f"{{{{ {planned} }}}}", timeout=1), "when": "read.manifest is defined"},
        {**task("restored", **places, plan={}, reason="nobody holds the Lease"), "when": "read.manifest is not defined"},
    ]
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": {"wish": wish}, "tasks": tasks}]))
    run = play_cases(playbook, {"cp-1": LOCAL, "cp-2": LOST}, folder=tmp_path)

    text = " ".join(run.output.split())
    assert "cp-1: the name of its Node is not known, because /var/lib/kubelet/pki/kubelet-client-current.pem has no certificate" in text
    assert "cp-2 cannot be reached: repair it, or if it does not return, remove its Node" in text
    missing = "Pod kube-system/kube-scheduler-node-of-a-test has no process with the command of the manifest after 1 s"
    assert run.failure("cp-1") == f"cp-1: {missing}. The earlier manifest is restored, and then: {missing}"
    assert "nobody holds the Lease cp-2 cannot be reached, so its earlier manifest is not restored" in run.failure("cp-2")
    assert manifest.read_text() == MANIFEST and list(manifest.parent.iterdir()) == [manifest]


def test_pods_that_any_kubelet_can_make_prevent_no_installation_and_no_removal(cluster: Cluster, tmp_path: Path) -> None:
    """The pods have the labels of kube-scheduler and of the extenders, and are on a worker."""
    manifest = tmp_path / "kube-scheduler.yaml"
    manifest.write_text(MANIFEST)
    system = "/api/v1/namespaces/kube-system"
    cluster.api.post(f"{system}/configmaps", {"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": V1BETA4}})
    labels = {"component": "kube-scheduler", "app.kubernetes.io/name": "kube-scheduling-extender"}
    spec = {"nodeName": "worker-1", "containers": [{"name": "x", "image": IMAGE}]}
    cluster.api.post(f"{system}/pods", {"metadata": {"name": "forged-worker-1", "labels": labels}, "spec": spec})
    given = {
        "extended_scheduler_kubeconfig": str(cluster.kubeconfig),
        "extended_scheduler_preset": "pigeon",
        "extended_scheduler_extender_image": "registry.example.org/services:1",
        "extended_scheduler_node_label": "",
        "extended_scheduler_become": False,
        "extended_scheduler_manifest_path": str(manifest),
        "extended_scheduler_folder": str(tmp_path / "role"),
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }
    role = RolePlay("extended_scheduler", tmp_path, given, tasks_from="check")
    try:
        for state in ("present", "absent"):
            assert role.run(extended_scheduler_state=state).code == 0
            refused = role.run(
                "-i", "cp-1,", extended_scheduler_state=state, extended_scheduler_shape="kubeadm", extended_scheduler_hosts=["cp-1"]
            )
            # The machine of the test has no kubelet.
            assert "cp-1: the name of its Node is not known" in refused.in_one_line, refused.output
            assert "kube-scheduler also runs on" not in refused.in_one_line and "is installed" not in refused.in_one_line, refused.output
    finally:
        cluster.api.request("DELETE", f"{system}/configmaps/kubeadm-config")
        cluster.kubectl("--namespace", "kube-system", "delete", "pod", "forged-worker-1", "--grace-period=0", "--force")
