# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that the scheduler asked about last, so that /explain can calculate their scores again."""

from __future__ import annotations

import time
import typing as t
from collections import deque
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
    """The last 1,000 pods. ``clock``: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._pods: deque[RecentPod] = deque(maxlen=MAX_PODS)
        self.add = self._pods.append

    def find(self, namespace: str, name: str) -> RecentPod | None:
        """Return the last request for a pod of this name."""
        return next((pod for pod in self.newest() if pod.name == name and pod.namespace == namespace), None)

    def newest(self, most: int = MAX_PODS) -> Sequence[RecentPod]:
        """Return the pods, the newest first."""
        # A copy, because requests add pods meanwhile.
        return list(self._pods)[: -most - 1 : -1]
