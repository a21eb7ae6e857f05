# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random configurations of kube-scheduler. About half of them are valid, and the others have one or a few mistakes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.plugin_tables import (
    EXTENSION_POINTS,
    FIELDS,
    PLUGINS,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import KIND, full_name

from tests.integration.kubernetes_version import MINOR

Json = dict[str, Any]

CURRENT = {name: [point for point, span in points.items() if span[0] <= MINOR <= span[1]] for name, points in PLUGINS.items()}
IN_TREE = sorted(name for name, points in CURRENT.items() if points)
WITH_ARGS = sorted(name for name in IN_TREE if f"{name}Args" in FIELDS)
MISTAKES = (0.0, 0.01, 0.03, 0.08)
"""The share of values that are wrong. One of them is chosen for each configuration."""

NAMES = ["default-scheduler", "network-traffic", "a", "My Scheduler", "b.c/d"]
LABELS = ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack", "a.b/C_d"]
BAD_LABELS = ["", "a b", "-x", "a/b/c", "UPPER.io/x", "a..b/c", "x" * 64, "/x", "a-.b/c"]
RESOURCES = ["cpu", "memory", "example.com/gpu", "nvidia.com/gpu"]

POOLS: dict[tuple[str, str], tuple[Sequence[Any], Sequence[Any]]] = {
    ("KubeSchedulerConfiguration", "parallelism"): ([1, 16, 100, None], [0, -1, "16", 2**31, 1.5]),
    ("KubeSchedulerConfiguration", "percentageOfNodesToScore"): ([0, 50, 100, None], [-1, 101]),
    ("KubeSchedulerConfiguration", "podInitialBackoffSeconds"): ([1, 2, 10, None], [0, -1, 11]),
    ("KubeSchedulerConfiguration", "podMaxBackoffSeconds"): ([10, 60, None], [0, -5, 1]),
    ("KubeSchedulerProfile", "percentageOfNodesToScore"): ([0, 50, 100, None], [-1, 101]),
    ("LeaderElectionConfiguration", "leaseDuration"): (["15s", "20s", "1m", "0s"], ["5s", "-1s", "10s", "", "x", None]),
    ("LeaderElectionConfiguration", "renewDeadline"): (["10s", "9.5s", "0s"], ["1s", "-1s", "30s", "2400ms", 10]),
    ("LeaderElectionConfiguration", "retryPeriod"): (["2s", "1s500ms", "0"], ["-2s", "9s", "1d"]),
    ("LeaderElectionConfiguration", "resourceLock"): (["leases", ""], ["endpoints", "configmaps"]),
    ("LeaderElectionConfiguration", "resourceName"): (["kube-scheduler", "own", "", None], [5]),
    ("ClientConnectionConfiguration", "burst"): ([0, 100, None], [-1]),
    ("ClientConnectionConfiguration", "qps"): ([0, 50, 0.5, None], ["50", 1e39]),
    ("ClientConnectionConfiguration", "contentType"): (["application/json", "", None], []),
    ("ClientConnectionConfiguration", "acceptContentTypes"): (["", "application/json"], []),
    ("Extender", "weight"): ([1, 2, 10], [0, -1, "1"]),
    ("Extender", "httpTimeout"): (["200ms", "5s", "0s", "1h2m"], ["-5s", "200", None, 5]),
    ("ExtenderManagedResource", "name"): (
        [f"example.com/{letter}" for letter in "abcdefghij"],
        ["cpu", "example.com", "kubernetes.io/x", "requests.example.com/x", "", "a b/c", "example.com/a"],
    ),
    ("DefaultPreemptionArgs", "minCandidateNodesPercentage"): ([0, 10, 100, None], [-1, 101]),
    ("DefaultPreemptionArgs", "minCandidateNodesAbsolute"): ([1, 100, None], [-1, 0]),
    ("InterPodAffinityArgs", "hardPodAffinityWeight"): ([0, 1, 100, None], [-1, 101]),
    ("VolumeBindingArgs", "bindTimeoutSeconds"): ([0, 600, None], [-1]),
    ("DynamicResourcesArgs", "filterTimeout"): (["0s", "10s", None], ["-1s"]),
    ("DynamicResourcesArgs", "bindingTimeout"): (["1s", "600s", None], ["0s", "999ms", "-1s"]),
    ("PodTopologySpreadArgs", "defaultingType"): (["List"], ["System", "Lists", ""]),
    ("TopologySpreadConstraint", "maxSkew"): ([1, 5], [0, -1]),
    ("TopologySpreadConstraint", "topologyKey"): (LABELS, BAD_LABELS),
    ("TopologySpreadConstraint", "whenUnsatisfiable"): (["DoNotSchedule", "ScheduleAnyway"], ["", "Never"]),
    ("NodeSelectorRequirement", "key"): (LABELS, BAD_LABELS),
    ("UtilizationShapePoint", "score"): ([0, 5, 10], [-1, 11]),
    ("UtilizationShapePoint", "utilization"): ([0], [-1, 101]),
    ("ResourceSpec", "weight"): ([1, 0, None], [2, 100, -1, 101]),
    ("ResourceSpec", "name"): (RESOURCES, []),
    ("ScoringStrategy", "type"): (["LeastAllocated", "MostAllocated"], ["", "Least", "RequestedToCapacityRatio"]),
    ("NodeResourcesFitArgs", "ignoredResources"): ([["example.com/foo"], [], None], [["a b"], [""]]),
    ("NodeResourcesFitArgs", "ignoredResourceGroups"): ([["example.com"], []], [["example.com/x"], ["-"]]),
}
"""Good and bad values by struct and field."""

WRONG_TYPES = {
    "string": [1, True, ["x"], {}],
    "bool": ["true", 1, "yes"],
    "int32": ["1", 1.5, True, 2**31],
    "int64": ["1", 2**63],
    "float32": ["1", True],
    "Duration": [5, "5", "1y"],
    "*Duration": [5, "5"],
    "bytes": ["%", 1],
}
GOOD = {
    "string": ["x", "", None],
    "bool": [True, False, None],
    "int32": [1, None],
    "int64": [1, None],
    "float32": [1.5],
    "Duration": ["1s"],
    "*Duration": ["1s", None],
    "map[string]string": [{"a": "b"}, {}, None],
    "[]string": [["x"], [], None],
}


class RandomConfigurations:
    """Makes configurations. ``files`` has the paths of an existing CA, certificate, key and kubeconfig by field."""

    def __init__(self, seed: int, files: dict[str, str]) -> None:
        self._random = random.Random(seed)
        self._files = files
        self._mistakes = self._random.choice(MISTAKES)

    def configuration(self) -> Json:
        """Return one configuration."""
        made = self._struct("KubeSchedulerConfiguration", leave_out=("apiVersion", "kind", "profiles", "extenders"))
        made |= {"apiVersion": full_name("v1"), "kind": KIND}
        if not isinstance(made.get("clientConnection", {}), list | str):
            made["clientConnection"] = {**(made.get("clientConnection") or {}), "kubeconfig": self._files["kubeconfig"]}
        count = self._random.choice([0, 1, 1, 2, 3])
        if count or self._is_mistake():
            made["profiles"] = [self._profile(name) for name in self._random.sample(NAMES, count)]
            self._share_queue_sort(made["profiles"])
        if self._random.random() < 0.5:
            made["extenders"] = [self._extender(number) for number in range(self._random.choice([0, 1, 1, 2, 3]))]
        if self._is_mistake():
            made[self._random.choice(["algorithmSource", "Profiles", "healthzBindAddress"])] = self._random.choice(["x", [], None])
        if self._is_mistake():
            made[self._random.choice(["apiVersion", "kind"])] = self._random.choice(["v1", "Pod", full_name("v1beta3"), None])
        return made

    def _is_mistake(self) -> bool:
        return self._random.random() < self._mistakes

    def _profile(self, name: str) -> Json:
        profile: Json = {"schedulerName": name}
        if self._is_mistake():
            profile = self._random.choice([{}, {"schedulerName": ""}, {"schedulerName": None}, {"schedulerName": "a"}])
        if self._random.random() < 0.3:
            profile["percentageOfNodesToScore"] = self._value("KubeSchedulerProfile", "percentageOfNodesToScore", "int32")
        if self._random.random() < 0.7:
            profile["plugins"] = self._plugins()
        if self._random.random() < 0.7:
            profile["pluginConfig"] = self._plugin_config()
        return profile

    def _share_queue_sort(self, profiles: list[Json]) -> None:
        """Give all profiles the same queueSort, except for a mistake."""
        choice = self._random.choice([None, None, {"enabled": [{"name": "PrioritySort"}]}, {"disabled": [{"name": "*"}]}])
        if choice is None or (choice.get("disabled") and not self._is_mistake()):
            return
        for profile in profiles:
            if not self._is_mistake():
                profile["plugins"] = {**(profile.get("plugins") or {}), "queueSort": choice}

    def _plugins(self) -> Json:
        points = [*EXTENSION_POINTS, "multiPoint"]
        chosen = self._random.sample(points, self._random.choice([0, 1, 1, 2, 3]))
        return {point: self._plugin_set(point) for point in chosen if point != "queueSort" or self._is_mistake()}

    def _plugin_set(self, point: str) -> Json:
        fitting = [name for name in IN_TREE if point == "multiPoint" or point in CURRENT[name]]
        made: Json = {}
        if self._random.random() < 0.6:
            count = min(len(fitting), self._random.choice([1, 1, 2, 3]))
            made["enabled"] = [self._plugin(name) for name in self._random.sample(fitting, count)]
            if self._is_mistake():
                made["enabled"] += made["enabled"][:1]
        if self._random.random() < 0.6:
            disabled = [{"name": name} for name in self._random.sample(IN_TREE, self._random.choice([1, 2]))]
            needed = {"bind", "multiPoint", "queueSort"}
            every = self._is_mistake() if point in needed else self._random.random() < 0.4
            made["disabled"] = (
                [{"name": "*"}] if every else [one for one in disabled if point not in needed or self._is_optional(one["name"])]
            )
            if self._is_mistake():
                made["disabled"].append({"name": self._random.choice(["NoSuchPlugin", "DefaultBinder", "PrioritySort"])})
        if self._is_mistake():
            made["filter"] = []
        return made

    def _is_optional(self, name: str) -> bool:
        return name not in ("DefaultBinder", "PrioritySort") or self._is_mistake()

    def _plugin(self, name: str) -> Json:
        if self._is_mistake():
            name = self._random.choice([*IN_TREE, "NoSuchPlugin", "*", "", "EBSLimits"])
        weight = self._random.choice([{}, {}, {"weight": 1}, {"weight": 5}, {"weight": None}, {"weight": -1}])
        return {"name": name, **({"weight": "2"} if self._is_mistake() else weight)}

    def _plugin_config(self) -> list[Json]:
        names = self._random.sample(WITH_ARGS, self._random.choice([1, 1, 2, 3]))
        if self._is_mistake():
            names.append(self._random.choice([*WITH_ARGS, "EBSLimits", "NoSuchPlugin", "NodeName"]))
        return [self._arguments(name) for name in names]

    def _arguments(self, name: str) -> Json:
        if name not in WITH_ARGS:
            return {"name": name, "args": {"any": 1}}
        if self._is_mistake():
            return self._random.choice(
                [{"name": name}, {"name": name, "args": None}, {"name": name, "args": "x"}, {"name": name, "args": []}]
            )
        args = self._struct(f"{name}Args", leave_out=("apiVersion", "kind", *(["shape"] if name == "VolumeBinding" else [])))
        if name == "PodTopologySpread" and not args.get("defaultConstraints") and not self._is_mistake():
            args["defaultingType"] = self._random.choice(["System", "List", ""])
        elif name == "PodTopologySpread" and not self._is_mistake():
            args["defaultingType"] = "List"
        if name == "VolumeBinding" and self._is_mistake():
            args["shape"] = self._shape()
        if self._random.random() < 0.2:
            args |= {"apiVersion": full_name("v1"), "kind": f"{self._random.choice(WITH_ARGS) if self._is_mistake() else name}Args"}
        return {"name": name, "args": args}

    def _extender(self, number: int) -> Json:
        made = self._struct("Extender", leave_out=("urlPrefix", "tlsConfig", "bindVerb"))
        made["urlPrefix"] = f"http://127.0.0.1:{8000 + number}/x"
        if self._is_mistake():
            made["urlPrefix"] = self._random.choice(["", None, 5, "ftp://x", "127.0.0.1:80", "http://[", "http://127.0.0.1:8000/x"])
        if made.get("prioritizeVerb") and not self._is_mistake():
            made["weight"] = self._random.choice([1, 5])
        if number == 0 or self._is_mistake():
            made["bindVerb"] = self._random.choice(["bind", "", None])
        if self._random.random() < 0.3:
            made["tlsConfig"] = self._tls()
        return made

    def _tls(self) -> Json:
        names = self._random.choice([("caFile",), ("caFile", "certFile", "keyFile"), ("certFile",), ()])
        made: Json = {name: self._files[name] for name in names}
        if "caFile" not in names or self._is_mistake():
            made["insecure"] = self._random.choice([True, False])
        return made

    def _struct(self, name: str, leave_out: Sequence[str] = ()) -> Json:
        made: Json = {}
        for key, (kind, span) in FIELDS[name].items():
            needed = (name, key) in POOLS and name in _ALL_FIELDS
            if key not in leave_out and (needed or self._random.random() < 0.4) and span[0] <= MINOR:
                made[key] = self._value(name, key, kind)
        if self._is_mistake():
            made[self._random.choice(["unknown", "Weight", "name "])] = self._random.choice([1, None, "x"])
        return made

    def _value(self, name: str, key: str, kind: str) -> Any:
        good, bad = POOLS.get((name, key), ((), ()))
        if self._is_mistake():
            wrong = [*bad, *WRONG_TYPES.get(kind, [])] or ["x", [1], {"x": 1}]
            return self._random.choice(wrong)
        if good:
            return self._random.choice(good)
        if kind == "[]UtilizationShapePoint":
            return self._shape()
        if kind == "NodeSelectorRequirement" or kind == "[]NodeSelectorRequirement":
            return self._requirements(fields=key == "matchFields")
        if kind == "RequestedToCapacityRatioParam":
            return {"shape": self._shape()} if self._is_mistake() else None
        if kind == "LabelSelector":
            return {"matchLabels": {"a": "b"}} if self._is_mistake() else None
        if kind.startswith("[]") and kind[2:] in FIELDS:
            return self._list(kind[2:])
        if kind in FIELDS:
            return self._struct(kind) if self._random.random() < 0.9 else None
        return self._random.choice(GOOD[kind])

    def _list(self, struct: str) -> list[Json | None]:
        made: list[Json | None] = [self._struct(struct) for _number in range(self._random.choice([0, 1, 1, 2]))]
        if struct in ("ResourceSpec", "TopologySpreadConstraint") and not self._is_mistake():
            key = "name" if struct == "ResourceSpec" else "topologyKey"
            seen: dict[Any, Json | None] = {str((one or {}).get(key)): one for one in made}
            made = list(seen.values())
        if self._is_mistake():
            made.append(None)
        return made

    def _shape(self) -> list[Json]:
        uses = sorted(self._random.sample(range(0, 101, 10), self._random.choice([1, 2, 3])), reverse=self._is_mistake())
        points = [{"utilization": use, "score": self._value("UtilizationShapePoint", "score", "int32")} for use in uses]
        return [] if self._is_mistake() else points

    def _requirements(self, *, fields: bool) -> list[Json]:
        return [self._requirement(fields=fields) for _number in range(self._random.choice([0, 1, 2]))]

    def _requirement(self, *, fields: bool) -> Json:
        operators = ["In", "NotIn"] if fields else ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
        operator = self._random.choice(["Is", "", *operators, "Exists"]) if self._is_mistake() else self._random.choice(operators)
        values: dict[str, list[list[str]]] = {"Exists": [[]], "DoesNotExist": [[]], "Gt": [["5"], ["-1"]], "Lt": [["5"]]}
        good = values.get(operator, [["a"], ["b-C"]] if fields else [["a"], ["a", "b"], [""]])
        bad = [[], ["a", "b"], ["5"], ["x y"], ["1.5"], ["a" * 64]]
        return {
            "key": "metadata.name" if fields else self._value("NodeSelectorRequirement", "key", "string"),
            "operator": operator,
            "values": self._random.choice(bad if self._is_mistake() else good),
        }


_ALL_FIELDS = {"TopologySpreadConstraint", "ExtenderManagedResource", "ResourceSpec", "ScoringStrategy", "PodTopologySpreadArgs"}
"""The structs of which each field with a pool is always there."""
