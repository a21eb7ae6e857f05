# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are full: ReplicaSets of several sizes, priorities and budgets, stored with their pods as controllers leave them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab import etcd_bulk_load

Json = dict[str, Any]

NODE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
SLOTS = (("3000m", "10Gi"), ("2200m", "8Gi"), ("1600m", "6Gi"), ("1000m", "6Gi"))
"""The requests of the four pods of each node. 200m and 2 GiB of the node stay free."""

CRITICAL = "system-cluster-critical"
CRITICAL_PRIORITY = 2_000_000_000
ORDINARY: Mapping[int, int] = {0: 30, 100: 25, 1000: 20, 10_000: 15, 1_000_000: 10}
"""Priorities below critical ones, and the weight of each."""
MIXED = {**ORDINARY, CRITICAL_PRIORITY: 3}
NO_BUDGETS: Mapping[int | None, int] = {None: 1}
MIXED_BUDGETS: Mapping[int | None, int] = {None: 50, 0: 20, 1: 20, 5: 10}
"""Disruptions that the budgets allow (None: there is no budget), and the weight of each."""


class Set(NamedTuple):
    """One ReplicaSet. ``allowed``: the disruptions that its budget allows."""

    name: str
    namespace: str
    uid: str
    priority: int
    allowed: int | None
    slot: int
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Crowd:
    """Pods that fill ``nodes``. The same seed always gives the same pods.

    ``grace_s``: the grace period of each pod. Each pod gets ``spec`` and ``annotations``. Only stored pods get ``finalizers``.
    ``bare``: the pods have no controller. ``slots``: which of SLOTS the pods of this crowd take on each node.
    """

    namespaces: Sequence[str]
    nodes: Sequence[str]
    seed: int = 1
    replicas: int = 20
    grace_s: int = 1
    priorities: Mapping[int, int] = field(default_factory=lambda: MIXED)
    budgets: Mapping[int | None, int] = field(default_factory=lambda: MIXED_BUDGETS)
    spec: Json = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    bare: bool = False
    slots: Sequence[int] = tuple(range(len(SLOTS)))

    def sets(self) -> Iterator[Set]:
        """The ReplicaSets, each of which has at most one pod on a node."""
        chance = random.Random(self.seed)
        for slot in self.slots:
            order = chance.sample(self.nodes, len(self.nodes))
            for first in range(0, len(order), self.replicas):
                nodes = tuple(order[first : first + self.replicas])
                number = f"{self.nodes[0]}-{slot}-{first // self.replicas}"
                priority, allowed = _drawn(chance, self.priorities), _drawn(chance, self.budgets)
                yield Set(
                    f"app-{number}",
                    self.namespaces[first // self.replicas % len(self.namespaces)],
                    str(uuid.UUID(int=chance.getrandbits(128), version=4)),
                    priority,
                    None if allowed is None else min(allowed, len(nodes)),
                    slot,
                    nodes,
                )

    def objects(self) -> Iterator[Json]:
        """Yield the objects to store."""
        for owner in self.sets():
            if not self.bare:
                yield self._replica_set(owner)
            if owner.allowed is not None:
                yield _budget(owner, owner.allowed)
            yield from etcd_bulk_load.pods_running(
                {"metadata": self._metadata(owner), "spec": self._stored_spec(owner)},
                [(f"{owner.name}-{number}", node) for number, node in enumerate(owner.nodes)],
            )

    def _metadata(self, owner: Set) -> Json:
        metadata: Json = {"namespace": owner.namespace, "labels": {"app": owner.name}, "annotations": dict(self.annotations)}
        if self.finalizers:
            metadata["finalizers"] = list(self.finalizers)
        if not self.bare:
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner.name, "uid": owner.uid}
            metadata["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        return metadata

    def _stored_spec(self, owner: Set) -> Json:
        """With what admission would have added."""
        return {**self._spec(owner), "priority": owner.priority, "preemptionPolicy": "PreemptLowerPriority"}

    def _spec(self, owner: Set) -> Json:
        cpu, memory = SLOTS[owner.slot]
        container = {
            "name": "main",
            "image": f"registry.example/{owner.name}:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        return {
            "containers": [container],
            "dnsPolicy": "ClusterFirst",
            "priorityClassName": class_of(owner.priority),
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": self.grace_s,
            **self.spec,
        }

    def _replica_set(self, owner: Set) -> Json:
        count = len(owner.nodes)
        labels = {"app": owner.name}
        template = {"metadata": {"labels": labels, "annotations": dict(self.annotations)}, "spec": self._spec(owner)}
        counts = dict.fromkeys(("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"), count)
        return {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid, "labels": labels, "generation": 1},
            "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
            "status": {"observedGeneration": 1, **counts},
        }


def priority_classes() -> list[Json]:
    """The classes of the ordinary priorities."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**kind, "metadata": {"name": class_of(priority)}, "value": priority} for priority in ORDINARY]


def class_of(priority: int) -> str:
    """The name of a priority's class."""
    return CRITICAL if priority == CRITICAL_PRIORITY else f"bench-{priority}"


def critical_pod(
    name: str,
    *,
    cpu: str = "500m",
    priority_class: str = CRITICAL,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod of kube-system that fits on no full node; other keywords go into its spec."""
    requests = {"cpu": cpu, **spec.pop("requests", {})}
    container = {"name": "main", "image": "registry.example/critical:1", "resources": {"requests": requests}}
    whole = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        **({"priorityClassName": priority_class} if priority_class else {}),
        **spec,
    }
    metadata = {"name": name, "namespace": "kube-system", "labels": {"app": name}, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def _drawn(chance: random.Random, weights: Mapping[Any, int]) -> Any:
    return chance.choices(list(weights), list(weights.values()))[0]


def _budget(owner: Set, allowed: int) -> Json:
    count = len(owner.nodes)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": now,
    }
    counts = {"currentHealthy": count, "desiredHealthy": count - allowed, "disruptionsAllowed": allowed, "expectedPods": count}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": owner.name, "namespace": owner.namespace, "generation": 1},
        "spec": {"minAvailable": count - allowed, "selector": {"matchLabels": {"app": owner.name}}},
        "status": {**counts, "observedGeneration": 1, "conditions": [condition]},
    }
