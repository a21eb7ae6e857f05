# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The profiles of the scheduler whose scores are compared."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
RACK = "example.com/rack"
GPU = "example.com/gpu"

DEFAULT, MOST, RATIO, ADDED, QUIET, LIST = (f"scores-{name}" for name in ("default", "most", "ratio", "added", "quiet", "list"))
NAMES = (DEFAULT, DEFAULT, DEFAULT, MOST, RATIO, ADDED, QUIET, LIST)
"""The scheduler names of random pods. The default profile is the most frequent one."""

PREFERRED_TERMS = [
    {"weight": 30, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
    {"weight": 7, "preference": {"matchExpressions": [{"key": RACK, "operator": "Exists"}]}},
]
SHAPE = [
    {"utilization": 0, "score": 2},
    {"utilization": 30, "score": 9},
    {"utilization": 70, "score": 3},
    {"utilization": 100, "score": 10},
]
DEFAULT_CONSTRAINTS = [
    {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": HOST, "maxSkew": 50, "whenUnsatisfiable": "DoNotSchedule"},
]


def configuration() -> Json:
    """Return the configuration of the scheduler. Preemption is off, because it would delete pods."""
    return {
        # All nodes are scored.
        "percentageOfNodesToScore": 100,
        "podMaxBackoffSeconds": 1,
        "profiles": [
            _profile(DEFAULT),
            _profile(
                MOST,
                _weights(ImageLocality=10, TaintToleration=1, NodeResourcesFit=4, PodTopologySpread=7),
                NodeResourcesFit={"scoringStrategy": _strategy("MostAllocated", cpu=3, memory=1, **{GPU: 5})},
                NodeResourcesBalancedAllocation={"resources": _resources(cpu=1, memory=1, **{"ephemeral-storage": 1, GPU: 1})},
            ),
            _profile(
                RATIO,
                NodeResourcesFit={
                    "scoringStrategy": {
                        **_strategy("RequestedToCapacityRatio", cpu=2, memory=0, **{"ephemeral-storage": 3}),
                        "requestedToCapacityRatio": {"shape": SHAPE},
                    }
                },
                NodeResourcesBalancedAllocation={"resources": _resources(cpu=1, **{"ephemeral-storage": 1})},
                InterPodAffinity={"hardPodAffinityWeight": 0},
            ),
            _profile(
                ADDED,
                InterPodAffinity={"hardPodAffinityWeight": 100, "ignorePreferredTermsOfExistingPods": True},
                NodeAffinity={"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED_TERMS}},
                PodTopologySpread={"defaultingType": "List"},
            ),
            _profile(
                QUIET, {"score": {"disabled": [{"name": name} for name in ("ImageLocality", "NodeResourcesFit", "InterPodAffinity")]}}
            ),
            _profile(LIST, PodTopologySpread={"defaultingType": "List", "defaultConstraints": DEFAULT_CONSTRAINTS}),
        ],
    }


def _profile(name: str, plugins: Json | None = None, **arguments: Json) -> Json:
    return {
        "schedulerName": name,
        "plugins": {"postFilter": {"disabled": [{"name": "*"}]}, **(plugins or {})},
        "pluginConfig": [{"name": plugin, "args": args} for plugin, args in arguments.items()],
    }


def _weights(**weights: int) -> Json:
    entries = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"multiPoint": {"enabled": entries}}


def _strategy(kind: str, **weights: int) -> Json:
    return {"type": kind, "resources": _resources(**weights)}


def _resources(**weights: int) -> list[Json]:
    return [{"name": name, "weight": weight} for name, weight in weights.items()]
