# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts about the CronJob fire from what its Jobs push, with the Pushgateway scraped as the guide says."""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from lab.cluster import Cluster
from lab.prometheus_server import PrometheusServer, prometheus_server
from tests.integration.pushgateway import gateway, gateway_program, push
from tests.integration.rebalancer.program import Rebalancer
from tests.integration.workloads import wait_until
from tools.paths import ROOT
from tools.rendered_base import ALERTS

__all__ = ["gateway", "gateway_program"]


GUIDE = ROOT / "docs" / "monitoring.md"
JOB = "kube_scheduling_rebalance"
LAST_RUN = f"{JOB}_last_run_timestamp_seconds"
HOUR_S = 3600


def states(prometheus: PrometheusServer) -> dict[str, str]:
    return {found["metric"]["alertname"]: found["metric"]["alertstate"] for found in prometheus.query("ALERTS")}


def test_a_failed_run_and_a_run_that_is_too_old_are_alerts(lab_cluster: Cluster, gateway: str, tmp_path: Path) -> None:
    assert "Scrape the Pushgateway with `honor_labels: true`" in GUIDE.read_text()
    job = {"job_name": "pushgateway", "honor_labels": True, "static_configs": [{"targets": [gateway.removeprefix("http://")]}]}
    jobs = tmp_path / "jobs.yml"
    jobs.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    user = lab_cluster.service_account("nobody-rebalances", cluster_role=None)
    run = Rebalancer(tmp_path / "rebalancer.log", f"--pushgateway-url={gateway}", f"--kubeconfig={user}")
    assert run.code() == 3, run.log.read_text()

    with prometheus_server(lab_cluster, tmp_path, [], rule_files=[ALERTS], scrape_config_files=[jobs]) as prometheus:
        wait_until(
            lambda: states(prometheus) == {"KubeSchedulingRebalanceFailed": "pending"}, timeout_s=60, what="the alert of the failure"
        )
        (series,) = prometheus.query(LAST_RUN)
        assert series["metric"] == {"__name__": LAST_RUN, "job": JOB}, "the next Job, on another node, continues the same series"

        push(gateway, JOB, f"# TYPE {LAST_RUN} gauge\n{LAST_RUN} {time.time() - 26 * HOUR_S}\n")
        expected = {"KubeSchedulingRebalanceFailed": "pending", "KubeSchedulingRebalanceNotRun": "firing"}
        wait_until(lambda: states(prometheus) == expected, timeout_s=60, what="the alert of the old run")
