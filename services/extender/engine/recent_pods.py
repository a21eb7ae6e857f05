# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that the scheduler asked about last, so that /explain can calculate their scores again."""

from __future__ import annotations

import time
import typing as t
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ..interface import PodView
from .dithering import table_key, table_of

MAX_PODS = 1000
MAX_CHARACTERS = 4 * 1024 * 1024
"""Characters of all kept names and labels. 1,000 ordinary pods have half a million. An agent may depend on any label, so all are kept."""


class RecentPod(t.NamedTuple):
    """A pod. ``view`` is None if the scores of its profile do not depend on the pod.

    ``asked_at_s``: seconds since 1970 in UTC, for people. ``nodes``: the number of nodes in the request. The names are not kept.
    """

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    nodes: int
    asked_at_s: float
    view: PodView | None

    @property
    def table(self) -> int:
        """Return the number of the pod's table."""
        return table_of(table_key(self.namespace, self.name, self.uid))


class RecentPods:
    """The last 1,000 pods, each with its last request, and fewer if they are very long. ``clock``: seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._pods: OrderedDict[tuple[str, str, str], tuple[RecentPod, int]] = OrderedDict()
        """Each pod with the number of its characters."""
        self._characters = 0

    def add(self, pod: RecentPod) -> None:
        """Keep a pod. It replaces the entry of the same UID and name, because the scheduler sends filter before prioritize."""
        key = (pod.uid, pod.namespace, pod.name)
        before, length = self._pods.pop(key, None), _length(pod)
        self._characters += length - (before[1] if before is not None else 0)
        self._pods[key] = pod, length
        while len(self._pods) > MAX_PODS or self._characters > MAX_CHARACTERS:
            _key, (_pod, dropped) = self._pods.popitem(last=False)
            self._characters -= dropped

    def find(self, namespace: str, name: str) -> RecentPod | None:
        """Return the last request for a pod of this name."""
        return next((pod for pod in self.newest() if pod.name == name and pod.namespace == namespace), None)

    def newest(self, most: int = MAX_PODS) -> Sequence[RecentPod]:
        """Return the pods, the newest first."""
        # A copy, because requests add pods meanwhile. list() of the values is one step of the interpreter.
        return [pod for pod, _length in list(self._pods.values())[: -most - 1 : -1]]


def _length(pod: RecentPod) -> int:
    """Return the number of characters of a pod's texts."""
    length = len(pod.namespace) + len(pod.name) + len(pod.uid) + len(pod.scheduler_name)
    if pod.view is None:
        return length
    labels = pod.view.labels
    return length + len(pod.view.owner) + sum(map(len, (*labels, *labels.values(), *pod.view.demand.requests)))
