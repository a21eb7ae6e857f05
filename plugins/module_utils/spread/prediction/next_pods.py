# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that a restart of a workload creates, with their filters and scores on one cluster state."""

from __future__ import annotations

import typing as t

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.snapshot import ClusterSnapshot
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.scores.image_locality import ImageSize
from ...scheduler.scores.scorer import Scorer
from ..next_pod.next_pod import next_pod
from .preemption import may_preempt


class NextPods:
    """The next pods of one workload. Everything is computed once for all simulations, which change forks of ``cluster_state``.

    ``image_size``: as in Scorer. ``ordinal``: that of the replica of a StatefulSet. The pods of a Deployment are equal.
    """

    def __init__(
        self, workload: Workload, snapshot: ClusterSnapshot, cluster_state: ClusterState, *, image_size: t.Optional[ImageSize] = None
    ) -> None:
        self.cluster_state = cluster_state
        self._image_size = image_size
        self._workload = workload
        self._snapshot = snapshot
        self._pods: dict[t.Optional[int], Pod] = {}
        self._filters: dict[t.Optional[int], FilterRunner] = {}
        self._scores: dict[t.Optional[int], Scorer] = {}
        self._may_preempt: dict[t.Optional[int], bool] = {}

    def pod(self, ordinal: t.Optional[int] = None) -> Pod:
        """Return the pod as admission changes it."""
        if ordinal not in self._pods:
            self._pods[ordinal] = next_pod(self._workload, self._snapshot, ordinal=ordinal).pod
        return self._pods[ordinal]

    def filters(self, fork: ClusterState, ordinal: t.Optional[int] = None) -> FilterRunner:
        """Return the filters for the pod on a fork."""
        return self._filters_of(ordinal).on_fork(fork)

    def scores(self, fork: ClusterState, ordinal: t.Optional[int] = None) -> Scorer:
        """Return the scores for the pod on a fork."""
        if ordinal not in self._scores:
            self._scores[ordinal] = Scorer(self.pod(ordinal), self.cluster_state, image_size=self._image_size)
        return self._scores[ordinal].on_fork(fork)

    def may_preempt(self, ordinal: t.Optional[int] = None) -> bool:
        """Return whether the scheduler may preempt other pods if the pod finds no node. It is judged before the restart."""
        if ordinal not in self._may_preempt:
            self._may_preempt[ordinal] = may_preempt(self.pod(ordinal), self._filters_of(ordinal), self.cluster_state)
        return self._may_preempt[ordinal]

    def _filters_of(self, ordinal: t.Optional[int]) -> FilterRunner:
        if ordinal not in self._filters:
            self._filters[ordinal] = FilterRunner(self.pod(ordinal), self.cluster_state)
        return self._filters[ordinal]
