# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The profiles of the oracle: a real kube-scheduler with the recorder as its extender."""

from __future__ import annotations

from typing import Any

from tests.integration.kubernetes_version import MINOR

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
# A profile without some filters. A plugin that is disabled only as a filter still has its PreFilter.
OPEN_SCHEDULER_NAME = "oracle-open"
DISABLED_FILTERS = ("NodeResourcesFit", "TaintToleration", "NodeAffinity")
DISABLED_PLUGINS = ("NodePorts", "InterPodAffinity", "NodeUnschedulable")
# A profile that spreads the pods of a controller without constraints of their own.
SPREAD_SCHEDULER_NAME = "oracle-spread"
DEFAULT_CONSTRAINTS = (
    {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
    {"topologyKey": "disk", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
    {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
)
OWNERS = {"ReplicaSet": {"app": "web"}, "StatefulSet": {"app": "web", "tier": "1"}}
"""The controllers of pods in each namespace by kind, and the labels that each selects."""
FEATURE_GATES = (("feature-gates", "TaintTolerationComparisonOperators=true"),) if MINOR >= 35 else ()
"""The flags of the API server and of the scheduler for the operators Lt and Gt of tolerations. Kubernetes 1.34 refuses such pods."""


def configuration(extender_url: str) -> dict[str, Any]:
    """Return the scheduler's configuration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
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
            {
                "schedulerName": OPEN_SCHEDULER_NAME,
                "plugins": {
                    "postFilter": {"disabled": [{"name": "*"}]},
                    "filter": {"disabled": [{"name": name} for name in DISABLED_FILTERS]},
                    "multiPoint": {"disabled": [{"name": name} for name in DISABLED_PLUGINS]},
                },
            },
            {
                "schedulerName": SPREAD_SCHEDULER_NAME,
                "plugins": {"postFilter": {"disabled": [{"name": "*"}]}},
                "pluginConfig": [
                    {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": list(DEFAULT_CONSTRAINTS)}}
                ],
            },
        ],
        "extenders": [{"urlPrefix": extender_url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "60s"}],
    }
