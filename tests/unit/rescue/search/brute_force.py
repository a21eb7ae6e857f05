# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Find the best victims: compare every set of pods on every node by the documented order only."""

from __future__ import annotations

import typing as t
from collections import Counter
from itertools import combinations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodStatus
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.budgets.ledger import PdbLedger
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.eviction_filter import EvictionFilter
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible

from tests.unit.rescue.random_clusters import Cluster
from tests.unit.support.objects import CRITICAL
from tests.unit.support.searches import immunity

Order = tuple[t.Any, ...]


class BruteForce:
    """Checks each set in its own cluster state. The pods that may be evicted come from the rules, which have their own tests."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cluster_state = ClusterState.of(cluster.snapshot)
        self._budgets = PdbLedger(cluster.snapshot)
        self._rules = EvictionFilter(cluster.pod, cluster.options, self._budgets)
        self._homeless: dict[str, bool] = {}

    def candidates(self, node_name: str) -> list[Pod]:
        """The pods of the node that may go, each by itself."""
        pods = [pod for pod in self._cluster_state.pods_on(node_name) if immunity(self._rules, pod, self._cluster.options) is None]
        assert not any(map(self.would_preempt, pods)), "the rules allow to evict a pod whose replacement preempts"
        # Every critical pod of these clusters has the priority CRITICAL, by its class or by its annotation.
        return [pod for pod in pods if not (pod.spec.priority == CRITICAL and pod.metadata.uid in self._cluster.rescued)]

    def would_preempt(self, pod: Pod) -> bool:
        """The scheduler may delete the rescued pod for another pod of this template."""
        return (pod.spec.priority or 0) > (self._cluster.pod.spec.priority or 0) and pod.spec.preemption_policy != "Never"

    def best(self) -> tuple[Order, str, tuple[Pod, ...]] | None:
        """The order, the node and the set of the best one; None where none will do."""
        sets: list[tuple[Order, int, str, tuple[Pod, ...]]] = []
        for position, (name, found) in enumerate(self._cluster.snapshot.nodes.items()):
            if found.ready:
                pods = self.candidates(name)
                subsets = (subset for size in range(len(pods) + 1) for subset in combinations(pods, size))
                sets += [(self.order(subset), position, name, subset) for subset in subsets if self.permitted(subset)]
        sets.sort(key=lambda found: found[:2])
        return next(((order, name, subset) for order, _position, name, subset in sets if self.fits(name, subset)), None)

    def permitted(self, pods: t.Sequence[Pod]) -> bool:
        """Not more than the options and the budgets allow together."""
        most = self._cluster.options.max_victims
        counted = Counter(key for key in map(self._budgets.budget_of, pods) if key is not None)
        allowed = {
            (budget.metadata.namespace, budget.metadata.name): budget.status.disruptions_allowed
            for budgets in self._cluster.snapshot.budgets_by_namespace.values()
            for budget in budgets
        }
        return (most is None or len(pods) <= most) and all(number <= allowed[key] for key, number in counted.items())

    def fits(self, node_name: str, without: t.Iterable[Pod]) -> bool:
        """Return whether the pod passes the scheduler's filters on the node without these pods."""
        now = self._cluster_state.fork()
        for pod in without:
            now.remove(pod)
        answer = find_feasible(self._cluster.pod, now, node_names=[node_name])
        return bool(answer.feasible) and not answer.unknown

    def order(self, pods: t.Sequence[Pod]) -> Order:
        """The steps by which one set is better than another, in their order."""
        priorities = [pod.spec.priority or 0 for pod in pods]
        gone = {pod.metadata.uid for pod in pods}
        return (
            max(priorities, default=-(2**40)),
            sum(priority + 2**31 for priority in priorities),
            len(pods),
            sum(map(self._is_tied, pods)),
            sum(map(self._is_homeless, pods)),
            -min((self._ready_siblings(pod, gone) for pod in pods), default=2**40),
            [-int(pod.metadata.creation_timestamp[8:10]) for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)],
            sorted(pod.metadata.name for pod in pods),
        )

    def _is_tied(self, pod: Pod) -> bool:
        controller = pod.metadata.controller
        counts = controller is not None and controller.kind == "Job" and not self._cluster.snapshot.jobs
        return counts or "scheduling.k8s.io/group-name" in (pod.metadata.annotations or {})

    def _is_homeless(self, pod: Pod) -> bool:
        uid = pod.metadata.uid
        if uid not in self._homeless:
            now = self._cluster_state.fork()
            now.remove(pod)
            unplaced = replace(pod.spec, node_name="")
            new = replace(pod, metadata=replace(pod.metadata, uid="new"), spec=unplaced, status=PodStatus())
            self._homeless[uid] = not set(find_feasible(new, now).feasible) - {pod.spec.node_name}
        return self._homeless[uid]

    def _ready_siblings(self, pod: Pod, gone: set[str]) -> int:
        controller = pod.metadata.controller
        if controller is None:
            return 0
        siblings = self._cluster.snapshot.pods_by_owner[pod.metadata.namespace, controller.uid]
        return sum(other.ready and not other.terminating and other.metadata.uid not in gone for other in siblings)
