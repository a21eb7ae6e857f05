# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random clusters for scores: unequal nodes, pods that run on them, and pods that the scheduler places one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from tests.integration.oracle.cluster_writer import Existing
from tests.integration.oracle.scores.profiles import GPU, HOST, NAMES, RACK, ZONE, Json

T = TypeVar("T")

NODE_COUNTS = (2, 6, 12, 20, 40)
EXISTING_PER_NODE = 3
INCOMING_COUNT = 150
NAMESPACES: dict[str, Json] = {"default": {}, "oracle": {"team": "a"}, "elsewhere": {"team": "b"}}
RUNTIME_CLASSES = {"light": {"cpu": "30m"}, "heavy": {"cpu": "100m", "memory": "120Mi"}}
SERVICES: tuple[Json, ...] = ({"app": "web"}, {"app": "db", "tier": "1"}, {"pod": "0"})
"""The selectors of the Services of each namespace. The last one selects some pods of a controller and not others."""
OWNERS: dict[tuple[str, str], Json] = {
    ("ReplicaSet", "web"): {"app": "web"},
    ("ReplicaSet", "revision"): {"app": "web", "pod-template-hash": "5d9c"},
    ("StatefulSet", "db"): {"app": "db"},
}
"""The controllers in each namespace by kind and name, and the labels that each selects."""
IMAGES = {f"registry.example.com/team/app-{number}": size for number, size in enumerate((1, 30, 90, 200, 450, 900, 1500, 4000))}
"""The images of nodes and pods, with their sizes in MiB."""


@dataclass(frozen=True)
class ScoreCase:
    """One cluster, and the pods to place."""

    nodes: list[Json]
    existing: list[Existing]
    incoming: list[Json]


def score_case(seed: int) -> ScoreCase:
    """Return the case of this seed."""
    return _Generator(Random(seed)).case()


class _Generator:
    def __init__(self, random: Random) -> None:
        self._random = random
        # A case may have no taints, images, affinities or labels of zones at all.
        self._rates = {name: random.choice((0.0, 0.2, 0.6, 0.9)) for name in ("taints", "images", "affinity", "constraints", "zones")}

    def case(self) -> ScoreCase:
        names = [f"node-{number}" for number in range(self._one_of(NODE_COUNTS))]
        existing = [self._existing(names) for _number in range(EXISTING_PER_NODE * len(names))]
        return ScoreCase([self._node(name) for name in names], existing, [self._incoming() for _number in range(INCOMING_COUNT)])

    def _chance(self, rate: float) -> bool:
        return self._random.random() < rate

    def _one_of(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def _some(self, make: Any, most: int) -> list[Any]:
        return [make() for _number in range(self._random.randint(1, most))]

    # --- nodes ---

    def _node(self, name: str) -> Json:
        labels = {"disk": self._one_of(("ssd", "hdd"))}
        if self._chance(0.95):
            labels[HOST] = name if self._chance(0.95) else "shared"
        if self._chance(self._rates["zones"]):
            labels[ZONE] = self._one_of(("a", "a", "a", "b", "c", ""))
        if self._chance(0.7):
            labels[RACK] = self._one_of(("1", "2", "3", "4"))
        offered = {
            "cpu": self._one_of(("4", "8", "16", "7300m")),
            "memory": self._one_of(("4Gi", "16Gi", "33Gi", "10G")),
            "ephemeral-storage": self._one_of(("50Gi", "100Gi", "0")),
            "pods": self._one_of(("110", "110", "20")),
        }
        if self._chance(0.05):
            offered[self._one_of(("cpu", "memory"))] = "0"
        if self._chance(0.5):
            offered[GPU] = self._one_of(("4", "8", "0"))
        taints = self._some(self._taint, 3) if self._chance(self._rates["taints"]) else []
        unique = {(taint["key"], taint["effect"]): taint for taint in taints}
        images = [self._node_image(image) for image in IMAGES if self._chance(self._rates["images"])]
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": list(unique.values())},
            "status": {"allocatable": offered, "capacity": offered, "images": images},
        }

    def _taint(self) -> Json:
        effect = "PreferNoSchedule" if self._chance(0.9) else "NoSchedule"
        return {"key": self._one_of(("dedicated", "tier", "noisy")), "value": self._one_of(("db", "web", "")), "effect": effect}

    def _node_image(self, image: str) -> Json:
        # Some nodes report another size for the same name, as for a tag that was moved.
        size = IMAGES[image] * 1024 * 1024 + (self._one_of((5_000_000, 900_000_000)) if self._chance(0.001) else 0)
        return {"names": [f"{image}:latest", f"{image}@sha256:{'0' * 64}"], "sizeBytes": size}

    # --- pods ---

    def _metadata(self) -> Json:
        labels = {"app": self._one_of(("web", "web", "db", "other"))}
        if self._chance(0.4):
            labels["tier"] = self._one_of(("1", "2"))
        if self._chance(0.2):
            labels["pod"] = self._one_of(("0", "1"))
        found: Json = {"namespace": self._one_of(("default", "default", *NAMESPACES)), "labels": labels if self._chance(0.95) else {}}
        if self._chance(0.6):
            kind, name = self._one_of((*OWNERS, *OWNERS, ("DaemonSet", "agent"), ("ReplicaSet", "absent")))
            found["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}]
            if self._chance(0.8):
                labels.update(OWNERS.get((kind, name), {}))
        return found

    def _resources(self) -> Json:
        wanted = {}
        if self._chance(0.6):
            wanted["cpu"] = self._one_of(("10m", "50m", "150m", "0.1", "0"))
        if self._chance(0.6):
            wanted["memory"] = self._one_of(("10Mi", "64Mi", "150M", "300Mi", "0"))
        if self._chance(0.15):
            wanted["ephemeral-storage"] = self._one_of(("100Mi", "1G"))
        gpu = {GPU: self._one_of(("1", "0"))} if self._chance(0.05) else {}
        if self._chance(0.15):
            return {"limits": wanted | gpu}
        return {"requests": wanted, "limits": gpu}

    def _container(self, name: str) -> Json:
        image = self._one_of((*IMAGES, "registry.example.com/absent"))
        return {"name": name, "image": image + self._one_of(("", ":latest", f"@sha256:{'0' * 64}", ":1")), "resources": self._resources()}

    def _spec(self) -> Json:
        spec: Json = {"containers": [self._container("main")], "terminationGracePeriodSeconds": 0}
        if self._chance(0.3):
            spec["containers"].append(self._container("second"))
        if self._chance(0.25):
            names = [f"init-{number}" for number in range(self._random.randint(1, 3))]
            always = {"restartPolicy": "Always"}
            spec["initContainers"] = [self._container(name) | (always if self._chance(0.6) else {}) for name in names]
        if self._chance(0.1):
            spec["runtimeClassName"] = self._one_of(tuple(RUNTIME_CLASSES))
        if self._chance(0.15):
            spec["resources"] = self._pod_resources()
        if self._chance(0.1):
            spec["volumes"] = [{"name": "content", "image": {"reference": self._one_of(tuple(IMAGES))}}]
        if self._chance(0.5 * self._rates["affinity"]):
            spec["affinity"] = self._pod_affinities()
        return spec

    def _pod_resources(self) -> Json:
        amounts = {"cpu": self._one_of(("1", "700m")), "memory": self._one_of(("1Gi", "2Gi"))}
        requests = {name: amount for name, amount in amounts.items() if self._chance(0.5)}
        limits = {name: "4" if name == "cpu" else "4Gi" for name in amounts if self._chance(0.3)}
        return {"requests": requests, "limits": limits}

    def _existing(self, names: Sequence[str]) -> Existing:
        spec = self._spec()
        status: Json = {"phase": self._one_of(("Running", "Running", "Running", "Pending", "Succeeded", "Failed"))}
        if self._chance(0.1):
            # A nomination does not count for scores. The gate keeps the scheduler from placing the pod.
            spec |= {"schedulerName": NAMES[0], "schedulingGates": [{"name": "oracle/gate"}]}
            return Existing({"metadata": self._metadata(), "spec": spec}, {"nominatedNodeName": self._one_of(names)}, terminating=False)
        spec["nodeName"] = self._one_of(names)
        if self._chance(0.2):
            status["containerStatuses"] = [self._resized(container) for container in spec["containers"]]
        finished = status["phase"] in ("Succeeded", "Failed")
        return Existing({"metadata": self._metadata(), "spec": spec}, status, terminating=not finished and self._chance(0.15))

    def _resized(self, container: Json) -> Json:
        requests = {name: amount for name, amount in (("cpu", "220m"), ("memory", "500Mi")) if self._chance(0.7)}
        found = {"name": container["name"], "image": "none", "imageID": "", "ready": True, "restartCount": 0}
        return {**found, "resources": {"requests": requests}, "allocatedResources": requests}

    def _incoming(self) -> Json:
        spec = self._spec() | {"schedulerName": self._one_of(NAMES)}
        if self._chance(0.4):
            spec["tolerations"] = self._some(self._toleration, 3)
        affinity = spec.get("affinity", {})
        if self._chance(self._rates["affinity"]):
            affinity |= {"nodeAffinity": self._node_affinity()}
        if affinity:
            spec["affinity"] = affinity
        if self._chance(0.1):
            spec["nodeSelector"] = {"disk": "ssd"}
        if self._chance(self._rates["constraints"]):
            keys = self._random.sample((HOST, ZONE, RACK, "disk"), self._random.randint(1, 3))
            spec["topologySpreadConstraints"] = [self._constraint(key) for key in keys]
        return {"metadata": self._metadata(), "spec": spec}

    def _toleration(self) -> Json:
        found = {"operator": "Exists"} if self._chance(0.1) else self._keyed_toleration()
        if self._chance(0.5):
            found["effect"] = self._one_of(("PreferNoSchedule", "PreferNoSchedule", "NoSchedule"))
        return found

    def _keyed_toleration(self) -> Json:
        key = self._one_of(("dedicated", "tier", "noisy"))
        if self._chance(0.5):
            return {"key": key, "operator": "Exists"}
        return {"key": key, "operator": "Equal", "value": self._one_of(("db", "web", ""))}

    def _node_affinity(self) -> Json:
        return {"preferredDuringSchedulingIgnoredDuringExecution": self._some(self._preferred_node_term, 4)}

    def _preferred_node_term(self) -> Json:
        preference: Json = {}
        if self._chance(0.9):
            key, values = self._one_of(((ZONE, ["a", "b"]), ("disk", ["ssd"]), (RACK, ["1", "3"]), (RACK, ["2"])))
            operator = self._one_of(("In", "NotIn", "Exists", "DoesNotExist", "Gt"))
            if operator == "Gt":
                expression: Json = {"key": RACK, "operator": "Gt", "values": ["2"]}
            else:
                expression = {"key": key, "operator": operator, **({"values": values} if operator in ("In", "NotIn") else {})}
            preference["matchExpressions"] = [expression]
        if self._chance(0.2):
            preference["matchFields"] = [{"key": "metadata.name", "operator": self._one_of(("In", "NotIn")), "values": ["node-1"]}]
        return {"weight": self._random.randint(1, 100), "preference": preference}

    def _pod_affinities(self) -> Json:
        found: Json = {}
        for name in ("podAffinity", "podAntiAffinity"):
            if self._chance(0.6):
                weighted = [{"weight": self._random.randint(1, 100), "podAffinityTerm": term} for term in self._some(self._term, 2)]
                found[name] = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
        if self._chance(0.25):
            # It selects the pod itself, so that the first one can be placed.
            required = {"topologyKey": self._one_of((ZONE, "disk")), "labelSelector": {}, "namespaceSelector": {}}
            found.setdefault("podAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = [required]
        return found

    def _term(self) -> Json:
        term: Json = {"topologyKey": self._one_of((HOST, ZONE, ZONE, RACK, "disk"))}
        if self._chance(0.95):
            term["labelSelector"] = self._selector()
            if self._chance(0.2):
                term[self._one_of(("matchLabelKeys", "mismatchLabelKeys"))] = ["pod"]
        if self._chance(0.2):
            term["namespaces"] = self._random.sample(tuple(NAMESPACES), self._random.randint(1, 2))
        if self._chance(0.3):
            choices: tuple[Json, ...] = (
                {},
                {"matchLabels": {"team": "a"}},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["b"]}]},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            )
            term["namespaceSelector"] = self._one_of(choices)
        return term

    def _selector(self) -> Json:
        expression = {"key": "tier", "operator": self._one_of(("Exists", "DoesNotExist"))}
        choices: tuple[Json, ...] = (
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"app": "db"}},
            {"matchLabels": {"app": "web", "tier": "1"}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "other"]}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}, expression]},
            {"matchExpressions": [expression]},
            {},
        )
        return self._one_of(choices)

    def _constraint(self, key: str) -> Json:
        soft = self._chance(0.9)
        found: Json = {"topologyKey": key, "maxSkew": self._random.randint(1, 5) if soft else 40}
        found["whenUnsatisfiable"] = "ScheduleAnyway" if soft else "DoNotSchedule"
        if not soft and self._chance(0.3):
            found["minDomains"] = 2
        if self._chance(0.9):
            found["labelSelector"] = self._selector()
            if self._chance(0.3):
                found["matchLabelKeys"] = ["pod"]
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self._chance(0.4):
                found[policy] = self._one_of(("Honor", "Ignore"))
        return found
