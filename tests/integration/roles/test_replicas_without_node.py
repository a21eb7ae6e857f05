# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The error about replicas that are not available has the reason for which their pods find no node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.roles.role_play import ansible_playbook
from tests.integration.workloads import IMAGE

__all__ = ["cluster", "namespace"]

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]


def test_pods_without_a_node_are_named_with_the_reason_of_the_scheduler(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": "1000"}}}
    labels = {"app": "large"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    cluster.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "large", "namespace": namespace}, "spec": spec})
    given = {
        "cluster_objects_name": "large",
        "cluster_objects_namespace": namespace,
        "cluster_objects_replicas": 2,
        "cluster_objects_kubeconfig": str(cluster.kubeconfig),
        "cluster_objects_context": "",
        "cluster_objects_wait_timeout": 8,
        "cluster_objects_pending_remedy": "Lower the requests.",
    }
    role = {"name": "onprem.kube_scheduling.cluster_objects", "tasks_from": "available"}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [{"ansible.builtin.include_role": role}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))

    run = ansible_playbook(tmp_path / "play.yml", "-e", json.dumps(given), folder=tmp_path)

    text = " ".join(run.output.split())
    pods = cluster.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    names = sorted(pod["metadata"]["name"] for pod in pods)
    assert run.code == 2 and f"Deployment {namespace}/large: 0 of 2 replicas are available after 8 s (" in text, run.output
    assert len(names) == 2 and any(f"No node is found for {a}, {b}: 0/" in text for a, b in (names, names[::-1])), run.output
    assert "Insufficient cpu" in text and "Lower the requests. See kubectl --namespace" in text, run.output
