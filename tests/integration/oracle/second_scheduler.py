# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One more real kube-scheduler beside the lab's own, with the recorder as its extender."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import Cluster

SCHEDULER_NAME = "oracle"
# A profile with settings of its own.
FENCED_SCHEDULER_NAME = "oracle-fenced"
ADDED_AFFINITY = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]},
    ]
}
IGNORED_RESOURCES = ["example.com/gpu"]
IGNORED_RESOURCE_GROUPS = ["ignored.example.com"]
# The profile of nominated pods. Without preemption a failed attempt would take their nomination away; with it, and a class that
# preempts nobody, they keep it.
WAITING_SCHEDULER_NAME = "oracle-waiting"
FEATURE_GATES = "TaintTolerationComparisonOperators=true"


@contextmanager
def second_scheduler(cluster: Cluster, extender_url: str, folder: Path) -> Iterator[Path]:
    """Run the scheduler; yields its log file."""
    configuration, log = folder / "scheduler.yaml", folder / "scheduler.log"
    configuration.write_text(yaml.safe_dump(_configuration(cluster.kubeconfig, extender_url)))
    command = [str(cluster.binary("kube-scheduler")), "--config", str(configuration), "--secure-port", "0"]
    command += ["--feature-gates", FEATURE_GATES]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield log
        finally:
            process.terminate()
            process.wait(timeout=20)


def _configuration(kubeconfig: Path, extender_url: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 10000, "burst": 20000},
        # All nodes are filtered, not only as many as would do.
        "percentageOfNodesToScore": 100,
        "podMaxBackoffSeconds": 1,
        # Without this, preemption would delete pods to help one that the recorder has refused.
        "profiles": [
            {"schedulerName": SCHEDULER_NAME, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}},
            {
                "schedulerName": FENCED_SCHEDULER_NAME,
                "plugins": {"postFilter": {"disabled": [{"name": "*"}]}},
                "pluginConfig": [
                    {"name": "NodeAffinity", "args": {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ADDED_AFFINITY}}},
                    {
                        "name": "NodeResourcesFit",
                        "args": {"ignoredResources": IGNORED_RESOURCES, "ignoredResourceGroups": IGNORED_RESOURCE_GROUPS},
                    },
                ],
            },
            {"schedulerName": WAITING_SCHEDULER_NAME},
        ],
        "extenders": [{"urlPrefix": extender_url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}],
    }
