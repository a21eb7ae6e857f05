# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods that are on their way out: their room becomes free by itself, unless they hang."""

from __future__ import annotations

import typing as t

from ..model.objects import Pod
from ..model.snapshot import ClusterSnapshot
from ..model.timestamps import parse_time

HANGS_AFTER_S = 15
"""Seconds beyond its grace period, which ``deletionTimestamp`` contains, after which a pod counts as hanging: kubelets take a moment."""


class Leaving(t.NamedTuple):
    """By node: the pods that end within their grace period, and those that should have ended long ago."""

    soon: dict[str, list[Pod]]
    hanging: dict[str, list[Pod]]


def leaving_pods(snapshot: ClusterSnapshot, now_s: float) -> Leaving:
    """All pods that are terminating on a node. Finished ones take no room, whatever keeps their objects."""
    found = Leaving({}, {})
    for pod in snapshot.pods:
        if pod.metadata.deletion_timestamp is not None and pod.spec.node_name and not pod.terminal:
            group = found.hanging if hangs(pod, now_s) else found.soon
            group.setdefault(pod.spec.node_name, []).append(pod)
    return found


def hangs(pod: Pod, now_s: float) -> bool:
    """It should have ended by now; there is no telling when it will."""
    return pod.metadata.deletion_timestamp is not None and parse_time(pod.metadata.deletion_timestamp) + HANGS_AFTER_S < now_s
