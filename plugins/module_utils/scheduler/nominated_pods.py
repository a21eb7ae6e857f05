# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pending pods that hold a promise of a node: others of no higher priority must leave them their room.

Source: kubernetes ``pkg/scheduler/framework/runtime/framework.go`` (RunFilterPluginsWithNominatedPods) and
``backend/queue/nominator.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..model.api.pod import Pod
from .node_info import pod_key
from .profile import Profiles

# Kubernetes' own classes (``pkg/apis/scheduling/types.go``); no other one may be above the highest of users.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
HIGHEST_USER_PRIORITY = 1_000_000_000


PriorityOfClass = t.Callable[[str], t.Optional[int]]
"""The priority that pods of a class have; None where that is not known."""


@dataclass
class NominatedPods:
    """The pods nominated for a node that go before a pod: ``sure``, and ``possible`` where that is not known."""

    sure: list[Pod] = field(default_factory=list)
    possible: list[Pod] = field(default_factory=list)


def nominated_before(
    pod: Pod, nominated_pods: Mapping[str, Sequence[Pod]], profiles: Profiles, priority_of_class: PriorityOfClass
) -> dict[str, NominatedPods]:
    """Node name to those of the nominated pods that go before the pod, for a scheduler with these profiles."""
    found: dict[str, NominatedPods] = {}
    for node_name, nominated in nominated_pods.items():
        for other in nominated:
            goes_first = _is_before(other, pod, priority_of_class)
            if goes_first is False:
                continue
            ahead = found.setdefault(node_name, NominatedPods())
            # A scheduler knows only the nominations of its own pods, and of gated ones only what it saw since it started. Whether
            # a profile that is not known is one of the same scheduler's cannot be told.
            certain = goes_first and other.spec.scheduler_name in profiles and not other.spec.scheduling_gates
            (ahead.sure if certain else ahead.possible).append(other)
    return found


def _is_before(nominated: Pod, pod: Pod, priority_of_class: PriorityOfClass) -> bool | None:
    """Whether it is another pod of at least the pod's priority; None where the pod's priority is not known."""
    if (pod.metadata.uid or pod.metadata.name) and pod_key(nominated) == pod_key(pod):
        return False
    priority, other = _priority(pod, priority_of_class), nominated.spec.priority or 0
    if priority is not None:
        return other >= priority
    return True if other >= HIGHEST_USER_PRIORITY else None


def _priority(pod: Pod, priority_of_class: PriorityOfClass) -> int | None:
    """The pod's priority, or the one that admission will give to a template's pod; None where the snapshot does not tell.

    A template without a class gets the priority of the cluster's default class, if there is one: classes are not read.
    """
    if pod.spec.priority is not None or pod.metadata.uid:
        return pod.spec.priority or 0
    name = pod.spec.priority_class_name
    return SYSTEM_CLASSES.get(name, priority_of_class(name))
