# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pending pods that are nominated for a node: pods whose priority is not higher must leave them their capacity.

Source: kubernetes ``pkg/scheduler/framework/runtime/framework.go`` (RunFilterPluginsWithNominatedPods) and ``backend/queue/nominator.go``.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..model.api.pod import Pod
from ..model.scheduler_profile import DEFAULT_PROFILE, Profiles
from .node_info import pod_key

# The priority classes of Kubernetes itself (``pkg/apis/scheduling/types.go``). No other class may have a priority above
# HIGHEST_USER_PRIORITY.
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
HIGHEST_USER_PRIORITY = 1_000_000_000


PriorityOfClass = t.Callable[[str], t.Optional[int]]
"""Returns the priority of the pods of a class, or None if it is not known."""


@dataclass
class NominatedPods:
    """The pods that are nominated for a node and count before a pod.

    ``sure``: they certainly count. ``possible``: it is not known whether they count.
    """

    sure: list[Pod] = field(default_factory=list)
    possible: list[Pod] = field(default_factory=list)


def nominated_before(
    pod: Pod, nominated_pods: Mapping[str, Sequence[Pod]], profiles: Profiles, priority_of_class: PriorityOfClass
) -> dict[str, NominatedPods]:
    """Return the nominated pods that count before the pod, by node name."""
    scheduler = profiles.get(pod.spec.scheduler_name, DEFAULT_PROFILE).scheduler
    found: dict[str, NominatedPods] = {}
    for node_name, nominated in nominated_pods.items():
        for other in nominated:
            goes_first = _is_before(other, pod, priority_of_class)
            if goes_first is False:
                continue
            ahead = found.setdefault(node_name, NominatedPods())
            # A scheduler knows only the nominations of its own pods. Of gated pods it knows only those nominations that it has seen since
            # its start. It is not known whether a profile that is not in ``profiles`` belongs to the same scheduler.
            profile = profiles.get(other.spec.scheduler_name)
            same = profile is not None and profile.scheduler == scheduler
            certain = goes_first and same and not other.spec.scheduling_gates
            (ahead.sure if certain else ahead.possible).append(other)
    return found


def _is_before(nominated: Pod, pod: Pod, priority_of_class: PriorityOfClass) -> bool | None:
    """Return whether it is another pod with at least the pod's priority. Return None if the pod's priority is not known."""
    if (pod.metadata.uid or pod.metadata.name) and pod_key(nominated) == pod_key(pod):
        return False
    priority, other = _priority(pod, priority_of_class), nominated.spec.priority or 0
    if priority is not None:
        return other >= priority
    return True if other >= HIGHEST_USER_PRIORITY else None


def _priority(pod: Pod, priority_of_class: PriorityOfClass) -> int | None:
    """Return the pod's priority, or the priority that admission will set on a template's pod. Return None if the snapshot does not show it.

    A template without a class gets the priority of the cluster's default class, if there is one. Classes are not read.
    """
    if pod.spec.priority is not None or pod.metadata.uid:
        return pod.spec.priority or 0
    name = pod.spec.priority_class_name
    return SYSTEM_CLASSES.get(name, priority_of_class(name))
