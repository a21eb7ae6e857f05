# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The results of the scheduler's filters for a pod on a node after some pods of the node are evicted."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.pod import Pod
from ...model.scheduler_profile import DEFAULT_PROFILES, Profiles
from ...model.selectors.label_selector import matches
from ...scheduler.affinity_term_index import required_pod_affinity
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterRunner
from ...scheduler.pod_filters import FilterResult


class EvictionDryRun:
    """Removes pods from a fork of the cluster state, runs the filters, and restores the pods. The given cluster state does not change.

    ``unknown``: the reasons why the results of all nodes are uncertain.
    """

    def __init__(self, pod: Pod, cluster_state: ClusterState, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._cluster_state = cluster_state.fork()
        self._runner = FilterRunner(pod, self._cluster_state, profiles)
        self.unknown = self._runner.unknown
        self._affinity_selectors = [term.label_selector for term in required_pod_affinity(pod)]

    def filter_result(self, node_name: str, without: Iterable[Pod]) -> FilterResult:
        """Return the result for the node without these pods. Each of them is on its node of the snapshot."""
        gone = list(without)
        known = self._runner.result_without_pods(node_name, gone)
        if known is not None:
            return known
        for pod in gone:
            self._cluster_state.remove(pod)
        result = self._runner.run_filters(node_name)
        for pod in gone:
            self._cluster_state.restore(pod)
        return result

    def filter_result_on_empty(self, node_name: str) -> t.Optional[FilterResult]:
        """Return the result for the node without any pod. Return None if it depends on more than the node.

        The static filters must allow the node.
        """
        return self._runner.result_on_empty_node(node_name)

    def always_rejects(self, node_name: str, evictable: t.Sequence[Pod]) -> bool:
        """Return whether a topology filter rejects the node, whichever of these pods are evicted."""
        return self._runner.always_rejects(node_name, evictable)

    def is_monotone(self, evictable: Iterable[Pod]) -> bool:
        """Return whether further evictions of these pods can only open the node, and never close it.

        This is true if the pod's affinity selects none of them.
        """
        return not self._affinity_selectors or not any(
            matches(selector, pod.metadata.labels) for pod in evictable for selector in self._affinity_selectors
        )

    def fits(self, node_name: str, without: Iterable[Pod]) -> bool:
        """Return whether the node is surely feasible without these pods."""
        return not any(self.filter_result(node_name, without))
