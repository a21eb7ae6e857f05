# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods that the scheduler will bind without evictions. Evictions on their node for another pod would use the same capacity."""

from __future__ import annotations

import typing as t

from ..model.api.pod import Pod


class _Expected(t.NamedTuple):
    pod: Pod
    node: str
    priority: int


class ExpectedPods:
    """The pods that the scheduler is expected to bind soon, each with its node."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Expected] = {}

    def add(self, pod: Pod, node_name: str, priority: int) -> None:
        """Add a pod, or replace its node. ``priority``: its priority for rescues."""
        self._by_uid[pod.metadata.uid] = _Expected(pod, node_name, priority)

    def before(self, pod: Pod, priority: int) -> dict[str, Pod]:
        """Return the nodes on which another pod with at least this priority is expected, each with one such pod."""
        return {one.node: one.pod for uid, one in self._by_uid.items() if uid != pod.metadata.uid and one.priority >= priority}
