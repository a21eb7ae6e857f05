# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the scheduler's rules say of a pod on a node once some pods have left it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.pod import Pod
from ...model.selectors.label_selector import matches
from ...scheduler.affinity_term_index import required_pod_affinity
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import FilterResult, FilterRunner
from ...scheduler.profile import DEFAULT_PROFILES, Profiles


class EvictionDryRun:
    """Takes pods away, asks, and puts them back; the placement stays as it is.

    ``unknown``: what of the pod cannot be judged on any node.
    """

    def __init__(self, pod: Pod, placement: ClusterState, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._placement = placement.fork()
        self._judge = FilterRunner(pod, self._placement, profiles)
        self.unknown = self._judge.unknown
        self._affinity_selectors = [term.label_selector for term in required_pod_affinity(pod)]

    def feasible(self, node_names: Iterable[str]) -> t.Sequence[str]:
        """Those of the nodes that are surely feasible as things are."""
        return self._judge.feasibility(node_names).feasible

    def filter_result(self, node_name: str, without: Iterable[Pod]) -> FilterResult:
        """The verdict on the node without these pods of it, each where the snapshot has it."""
        gone = list(without)
        known = self._judge.result_without_pods(node_name, gone)
        if known is not None:
            return known
        for pod in gone:
            self._placement.remove(pod)
        verdict = self._judge.run_filters(node_name)
        for pod in gone:
            self._placement.restore(pod)
        return verdict

    def filter_result_on_empty(self, node_name: str) -> t.Optional[FilterResult]:
        """The verdict on the node, which the static rules open, without any pod; None where it depends on more than the node."""
        return self._judge.result_on_empty_node(node_name)

    def stays_closed(self, node_name: str, leaving: t.Sequence[Pod]) -> bool:
        """A rule about other nodes too closes the node, whichever of these pods of it leave."""
        return self._judge.always_rejects(node_name, leaving)

    def is_monotone(self, leaving: Iterable[Pod]) -> bool:
        """None of these pods is one that the pod seeks to be near, so that with each more of them that leaves the node can only open."""
        return not self._affinity_selectors or not any(
            matches(selector, pod.metadata.labels) for pod in leaving for selector in self._affinity_selectors
        )

    def fits(self, node_name: str, without: Iterable[Pod]) -> bool:
        """The node is surely feasible without these pods."""
        return not any(self.filter_result(node_name, without))
