# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The add-ons that site.yml and after_maintenance.yml spread, on a real control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.modules.conftest import cluster
from tests.integration.playbooks.site_runs import Site, site, stats_of
from tests.integration.roles.role_play import ansible_playbook
from tests.integration.workloads import budget, deployment, only_node, pile_up, pod_uids, pods_of, restarted_at, workers

__all__ = ["cluster", "site"]


@pytest.fixture
def dns(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """CoreDNS as kubeadm leaves it: both replicas on one node."""
    manifest = deployment("kube-system", "coredns", 2)
    pile_up(cluster, manifest)
    yield manifest
    cluster.kubectl("delete", "deployment/coredns", "poddisruptionbudget/coredns", "-n", "kube-system", "--ignore-not-found")


def nodes_of(cluster: Cluster, manifest: dict[str, Any]) -> set[str]:
    return {pod["spec"]["nodeName"] for pod in pods_of(cluster, manifest) if not pod["metadata"].get("deletionTimestamp")}


def test_the_replicas_of_dns_are_planned_and_spread_when_two_nodes_can_run_them(cluster: Cluster, site: Site, dns: dict[str, Any]) -> None:
    before, tags = pod_uids(cluster, dns), ("--tags", "spread_addons")
    with only_node(cluster, workers(cluster)[0]):
        alone = site.play("site", *tags)
    assert alone.code == 0 and alone.changed == 0, alone.output
    assert "Deployment kube-system/coredns: fewer than two nodes can run its pods. The next run of this playbook" in alone.in_one_line

    off = site.play("site", *tags, site_spread_addons=[])
    assert off.code == 0 and "coredns" not in off.output, off.output

    planned = site.play("site", "--check", *tags)
    assert planned.code == 0 and "Deployment kube-system/coredns: 1 pod would be evicted" in planned.in_one_line, planned.output
    assert ". Its replicas then: " in planned.in_one_line, planned.output
    assert pod_uids(cluster, dns) == before

    made = site.play("site", *tags)
    assert made.code == 0 and len(nodes_of(cluster, dns)) == 2, made.output
    assert len(pod_uids(cluster, dns) & before) == 1 and restarted_at(cluster, dns) is None

    again = site.play("site", *tags)
    assert again.code == 0 and again.changed == 0 and "coredns:" not in again.output, again.output


@pytest.mark.full
def test_after_maintenance_spreads_the_replicas_of_dns_within_their_budget(cluster: Cluster, tmp_path: Path, dns: dict[str, Any]) -> None:
    before = pod_uids(cluster, dns)
    given = {"rebalance_kubeconfig": str(cluster.kubeconfig), "rebalance_report_path": "", "rebalance_namespaces": ["kube-system"]}

    def play(**variables: Any) -> Any:
        file = REPOSITORY / "playbooks" / "after_maintenance.yml"
        return ansible_playbook(file, "-e", json.dumps(given | variables), folder=tmp_path)

    cluster.apply(budget("kube-system", "coredns", "coredns", minAvailable=2))
    refused = play()
    assert refused.code == 0 and pod_uids(cluster, dns) == before, refused.output
    assert "Deployment kube-system/coredns was not spread: pod kube-system/coredns-" in refused.in_one_line, refused.output

    cluster.apply(budget("kube-system", "coredns", "coredns", minAvailable=1))
    wrong = play(site_spread_addons="coredns")
    assert wrong.code == 2 and "site_spread_addons" in wrong.output, wrong.output
    made = play()
    assert made.code == 0 and stats_of(made, "kube_scheduling_after_maintenance")["changed"], made.output
    assert len(nodes_of(cluster, dns)) == 2
