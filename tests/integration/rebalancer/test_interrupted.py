# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pass that is stopped, killed, or loses its Lease leaves the outcome pending, and the next pass continues without a second restart."""

from __future__ import annotations

from typing import Any

from lab.cluster import Cluster
from tests.integration.rebalancer.conftest import Start
from tests.integration.rebalancer.held_rollouts import pile_up_held, released
from tests.integration.rebalancer.program import LEASE, Rebalancer, holder
from tests.integration.workloads import known_outcome, pod_uids, restarted_at, wait_rolled_out, wait_until


def begun(cluster: Cluster, webs: list[dict[str, Any]], process: Rebalancer) -> dict[str, Any]:
    """Wait for the first restart and return its workload."""
    wait_until(lambda: any(restarted_at(cluster, web) for web in webs), what=lambda: f"a restart; {process.log.read_text()}")
    (first,) = [web for web in webs if restarted_at(cluster, web)]
    return first


def assert_next_pass_completes(cluster: Cluster, rebalancers: Start, first: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """The next pass records the outcome of the begun restart, does not repeat it, and restarts the others."""
    stamp = restarted_at(cluster, first)
    assert known_outcome(cluster, first)["outcome"] == "pending"
    with released(cluster, first["metadata"]["namespace"]):
        wait_rolled_out(cluster, first)
        done = rebalancers("--max-parallel=3")
        assert done.code() == 0, done.log.read_text()
    line = done.decision(first["metadata"]["name"])
    assert (line["action"], line["reason"], line["outcome"]) == ("skipped", "already_restarted", "improved"), line
    assert restarted_at(cluster, first) == stamp
    assert [known_outcome(cluster, web)["outcome"] for web in (first, *others)] == ["improved"] * (1 + len(others))


def test_sigterm_leaves_the_outcome_pending_and_releases_the_lease(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    webs = pile_up_held(cluster, namespace, "web-0", "web-1")
    process = rebalancers()
    first = begun(cluster, webs, process)
    assert process.stop() == 0, process.log.read_text()
    assert holder(cluster) == "" and process.said("pass stopped", reason="stopping")
    others = [web for web in webs if web is not first]
    assert [restarted_at(cluster, web) for web in others] == [None]
    assert process.decision(others[0]["metadata"]["name"])["reason"] == "stopping"
    line = process.decision(first["metadata"]["name"])
    assert (line["action"], line["outcome"]) == ("restarted", "pending")
    assert_next_pass_completes(cluster, rebalancers, first, others)


def test_a_pass_continues_after_one_that_was_killed(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    webs = pile_up_held(cluster, namespace, "web-0", "web-1")
    process = rebalancers()
    first = begun(cluster, webs, process)
    process.kill()
    assert holder(cluster) != "", "a killed program releases nothing"
    assert_next_pass_completes(cluster, rebalancers, first, [web for web in webs if web is not first])
    assert holder(cluster) == ""


def test_a_lost_lease_stops_further_moves(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    webs = pile_up_held(cluster, namespace, "web-0", "web-1")
    process = rebalancers()
    first = begun(cluster, webs, process)
    cluster.api.merge_patch(LEASE, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 15}})
    assert process.code() == 0, process.log.read_text()
    (stopped,) = process.said("pass stopped")
    assert stopped["reason"] == "lease_lost" and "another holds it" in stopped["text"]
    others = [web for web in webs if web is not first]
    assert [restarted_at(cluster, web) for web in others] == [None] and holder(cluster) == "another"
    assert_next_pass_completes(cluster, rebalancers, first, others)


def test_a_pass_survives_a_restart_of_the_api_server(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    webs = pile_up_held(cluster, namespace, "web-0", "web-1")
    process = rebalancers()
    begun(cluster, webs, process)
    cluster.kill("kube-apiserver")
    cluster.start("kube-apiserver")
    with released(cluster, namespace):
        assert process.code(240) == 0, process.log.read_text()
    assert [known_outcome(cluster, web)["outcome"] for web in webs] == ["improved"] * 2, process.log.read_text()


def test_sigterm_between_two_evictions_evicts_no_other_pod(cluster: Cluster, namespace: str, rebalancers: Start) -> None:
    (web,) = pile_up_held(cluster, namespace, "web", replicas=3)
    old = pod_uids(cluster, web)
    process = rebalancers("--strategy=evict_surplus", "--max-skew=1")
    wait_until(lambda: len(old & pod_uids(cluster, web)) == 2, what=lambda: f"the first eviction; {process.log.read_text()}")
    assert process.stop() == 0, process.log.read_text()
    line = process.decision("web")
    assert (line["action"], line["outcome"], line["evicted"]) == ("evicted", "pending", 1), line
    assert "told to stop" in line["text"] and len(old & pod_uids(cluster, web)) == 2 and holder(cluster) == ""
    with released(cluster, namespace):
        done = rebalancers("--strategy=evict_surplus", "--max-skew=1")
        assert done.code() == 0, done.log.read_text()
    assert done.decision("web")["outcome"] == "improved", done.log.read_text()
    assert len(old & pod_uids(cluster, web)) == 1 and known_outcome(cluster, web)["attempts"] == 0
