# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random configurations of kube-scheduler, as administrators change it."""

from __future__ import annotations

from typing import NamedTuple

from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import HOST, RACK, ZONE, Json

DEFAULT_NAME = "default-scheduler"
OWN_NAME = "own-profile"
DEFAULT_RATE = 0.55
"""The share of the clusters with the default configuration."""
SCORERS = ("ImageLocality", "InterPodAffinity", "NodeAffinity", "NodeResourcesBalancedAllocation", "NodeResourcesFit", "TaintToleration")
KINDS = (
    "no default constraints",
    "own default constraints",
    "most allocated",
    "capacity ratio",
    "disabled scores",
    "weights",
    "percentage",
)
SHAPE = [{"utilization": 0, "score": 2}, {"utilization": 40, "score": 9}, {"utilization": 100, "score": 4}]


class RandomProfiles(NamedTuple):
    """A configuration and the name of the profile that it changes. ``configuration`` is None for the defaults."""

    kind: str
    name: str
    configuration: Json | None


def random_profiles(choices: Choices) -> RandomProfiles:
    """Return the configuration of a cluster's scheduler. It changes the default profile, or adds another one."""
    if choices.chance(DEFAULT_RATE):
        return RandomProfiles("default", DEFAULT_NAME, None)
    kind = choices.choice(KINDS)
    name = choices.choice((DEFAULT_NAME, OWN_NAME))
    profile: Json = {"schedulerName": name, **_changed(choices, kind)}
    profiles = [profile] if name == DEFAULT_NAME else [{"schedulerName": DEFAULT_NAME}, profile]
    configuration: Json = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    return RandomProfiles(kind, name, configuration)


def _changed(choices: Choices, kind: str) -> Json:
    if kind == "no default constraints":
        return _arguments("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": []})
    if kind == "own default constraints":
        keys = choices.sample((HOST, ZONE, RACK), choices.randint(1, 2))
        constraints = [{"topologyKey": key, "maxSkew": choices.randint(1, 3), "whenUnsatisfiable": _action(choices)} for key in keys]
        return _arguments("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": constraints})
    if kind == "most allocated":
        resources = [{"name": "cpu", "weight": choices.randint(1, 5)}, {"name": "memory", "weight": 1}]
        return _arguments("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": resources}})
    if kind == "capacity ratio":
        strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}}
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        return _arguments("NodeResourcesFit", {"scoringStrategy": {**strategy, "resources": resources}})
    if kind == "disabled scores":
        disabled = [{"name": name} for name in (*choices.some(SCORERS, 0.5), *choices.some(("PodTopologySpread",), 0.3))]
        return {"plugins": {"score": {"disabled": disabled}}}
    if kind == "weights":
        enabled = [{"name": name, "weight": choices.choice((1, 2, 5, 20))} for name in (*choices.some(SCORERS, 0.5), "PodTopologySpread")]
        return {"plugins": {"multiPoint": {"enabled": enabled}}}
    return {"percentageOfNodesToScore": choices.choice((5, 30, 70, 100))}


def _action(choices: Choices) -> str:
    return choices.choice(("ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"))


def _arguments(plugin: str, args: Json) -> Json:
    return {"pluginConfig": [{"name": plugin, "args": args}]}
