# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of a pass in Debian's Pushgateway."""

from __future__ import annotations

from lab.cluster import Cluster
from tests.integration.pushgateway import gateway, gateway_program, get
from tests.integration.rebalancer.conftest import Start
from tests.integration.rebalancer.program import samples
from tests.integration.workloads import deployment, pile_up

__all__ = ["gateway", "gateway_program"]


def test_each_pass_replaces_the_metrics_of_the_last_one(cluster: Cluster, namespace: str, rebalancers: Start, gateway: str) -> None:
    pile_up(cluster, deployment(namespace, "web", 2))
    assert rebalancers(f"--pushgateway-url={gateway}").code() == 0
    first = samples(get(f"{gateway}/metrics"))
    assert (first["healthy"], first["collapsed"], first["failed"]) == (1, 0, 0)
    nobody = cluster.service_account("nobody", cluster_role=None)
    assert rebalancers(f"--pushgateway-url={gateway}", kubeconfig=nobody).code() == 3
    second = samples(get(f"{gateway}/metrics"))
    assert second["failed"] == 1 and "healthy" not in second
    assert second["last_run_timestamp_seconds"] > first["last_run_timestamp_seconds"]


def test_a_plan_pushes_nothing(rebalancers: Start, gateway: str) -> None:
    assert rebalancers(f"--pushgateway-url={gateway}", "--dry-run").code() == 0
    assert samples(get(f"{gateway}/metrics")) == {}
