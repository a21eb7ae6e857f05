# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that the scheduler asked about last, so that /explain can calculate their scores again."""

from __future__ import annotations

import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..interface import PodView

MAX_PODS = 1000


class RecentPod(t.NamedTuple):
    """A pod with the number of its table. ``view`` is None if the scores of its profile do not depend on the pod.

    ``asked_at_s``: seconds since 1970 in UTC, for people. ``nodes``: the number of nodes in the request. The names are not kept.
    """

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    table: int
    nodes: int
    asked_at_s: float
    view: PodView | None


class RecentPods:
    """The last 1,000 pods, each with its last request. ``clock``: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._pods: OrderedDict[tuple[str, str, str], RecentPod] = OrderedDict()

    def add(self, pod: RecentPod) -> None:
        """Keep a pod. It replaces the entry of the same UID and name, because the scheduler sends filter before prioritize."""
        key = (pod.uid, pod.namespace, pod.name)
        self._pods.pop(key, None)
        self._pods[key] = pod
        if len(self._pods) > MAX_PODS:
            self._pods.popitem(last=False)

    def find(self, namespace: str, name: str) -> RecentPod | None:
        """Return the last request for a pod of this name."""
        return next((pod for pod in self.newest() if pod.name == name and pod.namespace == namespace), None)

    def newest(self, most: int = MAX_PODS) -> Sequence[RecentPod]:
        """Return the pods, the newest first."""
        # A copy, because requests add pods meanwhile. list() of the values is one step of the interpreter.
        return list(self._pods.values())[: -most - 1 : -1]
