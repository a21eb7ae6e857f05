# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Full nodes of several kinds, each with a critical pod that only they may take: what scheduler and rescuer are compared on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.bench.rescue.crowd import CRITICAL_PRIORITY, NO_BUDGETS, ORDINARY, Crowd, critical_pod

Json = dict[str, Any]

NODES = 10
LABEL = "situation"
BY_ANNOTATION = {"scheduler.alpha.kubernetes.io/critical-pod": ""}


@dataclass(frozen=True)
class Situation:
    """``crowds``: what fills the nodes, given a crowd over all of them. ``pod``: what critical_pod gets. ``flags``: the rescuer's."""

    key: str
    title: str
    crowds: Callable[[Crowd], Sequence[Crowd]]
    pod: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    daemon_set: bool = False

    def fill(self, nodes: Sequence[str]) -> Sequence[Crowd]:
        """The crowds on these nodes, whose pods stay there."""
        selector = {"nodeSelector": {LABEL: self.key}}
        return self.crowds(Crowd([self.key], nodes, replicas=5, priorities=ORDINARY, budgets=NO_BUDGETS, spec=selector))

    def manifest(self, nodes: Sequence[str]) -> Json:
        """The critical pod, or a DaemonSet that has one on the first node. Its label app is ``name``."""
        pod = critical_pod(self.name, nodeSelector={LABEL: self.key}, **self.pod)
        if not self.daemon_set:
            return pod
        metadata = pod["metadata"]
        selector = {"kubernetes.io/hostname": nodes[0]}
        template = {"metadata": {"labels": metadata["labels"]}, "spec": {**pod["spec"], "nodeSelector": selector}}
        spec = {"selector": {"matchLabels": metadata["labels"]}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}

    @property
    def name(self) -> str:
        """Of the critical pod or its DaemonSet."""
        return f"critical-{self.key}"


def _hanging(crowd: Crowd) -> Sequence[Crowd]:
    """The pods with the lowest priority never end; on the other nodes all have a slightly higher one."""
    first = replace(crowd, nodes=crowd.nodes[:1], priorities={0: 1}, annotations={"lab.onprem/on-delete": "hang"})
    return [replace(first, finalizers=("bench.example/never",)), replace(crowd, nodes=crowd.nodes[1:], priorities={100: 1})]


def _protected(crowd: Crowd) -> Sequence[Crowd]:
    """Pods that nobody would make again, that must not be moved, and that would lose their files."""
    unsafe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    files = {**crowd.spec, "volumes": [{"name": "files", "emptyDir": {}}]}
    return [
        replace(crowd, nodes=crowd.nodes[:4], bare=True),
        replace(crowd, nodes=crowd.nodes[4:7], annotations=unsafe),
        replace(crowd, nodes=crowd.nodes[7:], spec=files),
    ]


def _as_it_is(crowd: Crowd) -> Sequence[Crowd]:
    return [crowd]


def _all_critical(crowd: Crowd) -> Sequence[Crowd]:
    return [replace(crowd, priorities={CRITICAL_PRIORITY: 1})]


SITUATIONS = (
    Situation("less-important", "pods with a lower priority", _as_it_is),
    Situation("some-budgets", "budgets that allow none for half of the pods", lambda crowd: [replace(crowd, budgets={None: 1, 0: 1})]),
    Situation("all-budgets", "budgets that allow none for all pods", lambda crowd: [replace(crowd, budgets={0: 1})]),
    Situation(
        "annotated",
        "the pod is critical by annotation only, all others have priority 0 as well",
        lambda crowd: [replace(crowd, priorities={0: 1})],
        {"priority_class": "", "annotations": BY_ANNOTATION},
    ),
    Situation("daemon-set", "a DaemonSet's pod on one full node", _as_it_is, {"priority_class": "system-node-critical"}, daemon_set=True),
    Situation("protected", "bare pods, pods not safe to evict, pods with local files", _protected),
    Situation("hanging", "the pods with the lowest priority never end", _hanging),
    Situation("equal", "all pods are as critical", _all_critical),
    Situation("equal-allowed", "the same with `allow_equal_priority`", _all_critical, flags=("--allow-equal-priority=true",)),
)
