# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rebalancer with an interval: passes until a signal, with metrics and health."""

from __future__ import annotations

from lab.cluster import Cluster
from tests.integration.rebalancer.conftest import Start
from tests.integration.rebalancer.program import Rebalancer, holder, samples
from tests.integration.workloads import deployment, known_outcome, outcome, pile_up, wait_until


def test_a_loop_spreads_what_is_piled_up_later(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    loop = rebalancers("--interval=1s")
    loop.wait_for("pass ended")
    assert loop.ask("/healthz")[0] == 200
    wait_until(lambda: loop.ask("/readyz")[0] == 200, what="readiness")
    web = deployment(namespace, "web")
    # The loop must not restart it while the other nodes are cordoned: then it would not be collapsed with free nodes.
    pile_up(cluster, web)
    wait_until(
        lambda: (outcome(cluster, web) or {}).get("outcome") == "improved", what=lambda: f"a spread workload; {loop.log.read_text()}"
    )
    wait_until(lambda: samples(loop.ask("/metrics")[1])["healthy"] == 1, what="the metric")
    assert "process_resident_memory_bytes" in loop.ask("/metrics")[1]
    assert loop.stop() == 0 and holder(cluster) == ""
    assert loop.said("stopped") and known_outcome(cluster, web)["attempts"] == 0


def test_a_loop_without_permissions_is_unready_and_names_them(cluster: Cluster, rebalancers: Start) -> None:
    loop = rebalancers("--interval=1s", kubeconfig=cluster.service_account("nobody", cluster_role=None))
    loop.wait_for("pass ended")
    status, text = loop.ask("/readyz")
    assert status == 503 and "Grant the verb" in text
    found = samples(loop.ask("/metrics")[1])
    assert found["failed"] == 1 and "healthy" not in found
    assert loop.stop() == 0


def test_a_loop_of_plans_shows_the_workloads_and_moves_nothing(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    loop = rebalancers("--interval=1s", "--dry-run")
    loop.wait_for("pass ended")
    pile_up(cluster, deployment(namespace, "web"))
    series = f'workload_kind="Deployment",workload_name="web",workload_namespace="{namespace}"'
    wanted = [f'kube_scheduling_rebalance_uneven_workload{{reason="",verdict="collapsed",{series}}} 1.0']
    wait_until(lambda: uneven_workloads(loop) == wanted, what=lambda: f"a collapsed workload; {loop.log.read_text()}")
    assert samples(loop.ask("/metrics")[1])["collapsed"] == 1
    assert outcome(cluster, deployment(namespace, "web")) is None
    assert loop.stop() == 0


def uneven_workloads(loop: Rebalancer) -> list[str]:
    return [line for line in loop.ask("/metrics")[1].splitlines() if line.startswith("kube_scheduling_rebalance_uneven_workload{")]
