# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""spread_verify.yml compares the spread with the numbers of an earlier run, without AWX."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.integration.playbooks.test_rebalance import cluster, piled_up
from tests.integration.roles.host_cases import play_cases

__all__ = ["cluster", "piled_up"]

PLAYBOOK = REPOSITORY / "playbooks" / "spread_verify.yml"


def test_more_collapsed_workloads_than_after_the_run_fail_and_nothing_is_restarted(
    cluster: Cluster, piled_up: Callable[..., str], tmp_path: Path
) -> None:
    namespace = piled_up()
    numbers = {
        "same": {"ok": True, "error": "", "collapsed_after": 1, "skewed_after": 0},
        "worse": {"ok": True, "error": "", "collapsed_after": 0, "skewed_after": 0},
        "failed": {"ok": False, "error": "the run had an error", "collapsed_after": 1, "skewed_after": 0},
    }
    given = {
        "rebalance_kubeconfig": str(cluster.kubeconfig),
        "rebalance_namespaces": [namespace],
        "rebalance_report_path": "",
        "rebalance_plan_only": False,  # as a survey passes it to each job of a workflow
        "kube_scheduling_rebalance": numbers,
    }
    hosts: dict[str, dict[str, str]] = {host: {} for host in (*numbers, "without")}
    run = play_cases(PLAYBOOK, hosts, "-e", json.dumps(given), folder=tmp_path)
    deployments = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"]
    assert [one["metadata"]["generation"] for one in deployments] == [1]
    assert run.failure("same") == ""
    assert "worse has 1 collapsed workloads, and had 0 after the run of rebalance" in run.failure("worse")
    assert "has failed for failed: the run had an error" in run.failure("failed")
    assert "for without: pass kube_scheduling_rebalance" in run.failure("without")
