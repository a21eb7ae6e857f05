# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for a set of evictions on any node after which a pod fits. Every set is tried, by the rules of the contract only.

This file uses no code that plans rescues. The predicates, which are compared with the real scheduler, decide whether a pod fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.policy import PodDisruptionBudget
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.label_selector import matches
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import find_feasible

Json = dict[str, Any]

CRITICAL_FROM = 2_000_000_000
HOLD_KEY = "CriticalAddonsOnly"


class Solution(NamedTuple):
    """The node, and the names of the pods that would have to go."""

    node: str
    victims: tuple[str, ...]


class World:
    """A cluster as it was read, without the pods that are terminating; ``options`` are those of the rescue.

    ``rescued``: the names of the critical pods that the run of the rescue has placed.
    """

    def __init__(self, snapshot: ClusterSnapshot, options: Json) -> None:
        self.snapshot = snapshot
        self.rescued: frozenset[str] = frozenset()
        self._options = options
        self.cluster_state = ClusterState.of(snapshot)
        for pod in snapshot.pods:
            if pod.terminating:
                self.cluster_state.remove(pod)

    def fingerprint(self, node_names: Collection[str], namespace: str) -> tuple[set[tuple[str, str, bool, bool]], dict[str, int]]:
        """The pods on these nodes and the budgets of the namespace, with all that changes while a cluster comes to rest."""
        pods = (pod for pod in self.snapshot.pods if pod.spec.node_name in node_names)
        budgets = self.snapshot.budgets_by_namespace.get(namespace, ())
        return (
            {(pod.metadata.uid, pod.spec.node_name, pod.ready, pod.terminating) for pod in pods},
            {budget.metadata.name: budget.status.disruptions_allowed for budget in budgets},
        )

    def find(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name."""
        wanted = (namespace, name)
        return next((pod for pod in self.snapshot.pods if (pod.metadata.namespace, pod.metadata.name) == wanted), None)

    def solution(self, pod: Pod, node_names: Iterable[str], *, evicted: int = 0) -> Solution | None:
        """The first set of evictions that is permitted and makes the pod fit, when so many pods have been evicted for it already."""
        for name in node_names:
            node = self.snapshot.nodes[name]
            able = [other for other in self.cluster_state.pods_on(name) if self.may_go(other, pod)] if node.ready else []
            for victims in (subset for size in range(len(able) + 1) for subset in combinations(able, size)):
                if self.permits(victims, evicted) and self.can_hold(node, pod, victims) and self.fits(pod, name, victims):
                    return Solution(name, tuple(victim.metadata.name for victim in victims))
        return None

    def fits(self, pod: Pod, node_name: str, without: Iterable[Pod] = ()) -> bool:
        """The scheduler would take the pod on the node without these."""
        now = self.cluster_state.fork()
        for other in without:
            now.remove(other)
        found = find_feasible(pod, now, node_names=[node_name])
        assert not found.unknown and not found.unknown_nodes, f"{pod.metadata.name}: {found}"
        return bool(found.feasible)

    # --- who may go -------------------------------------------------------------------------------------------------------

    def priority(self, pod: Pod) -> int:
        """Its own, or that of the annotation."""
        annotated = (pod.metadata.annotations or {}).get("scheduler.alpha.kubernetes.io/critical-pod") == ""
        if annotated and self._options["honor_critical_annotation"] != "none" and pod.metadata.namespace == "kube-system":
            return max(CRITICAL_FROM, pod.spec.priority or 0)
        return pod.spec.priority or 0

    def may_go(self, victim: Pod, pod: Pod) -> bool:
        """By all rules but the budgets: by kind, by importance, by option."""
        annotations, controller = victim.metadata.annotations or {}, victim.metadata.controller
        if "kubernetes.io/config.mirror" in annotations or annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false":
            return False
        if controller is not None:
            mine = pod.metadata.controller
            if controller.kind in ("DaemonSet", "Node") or (mine is not None and mine.uid == controller.uid):
                return False
        elif not self._options["allow_bare_pods"]:
            return False
        if _would_preempt(victim, pod):
            return False
        return self._has_lower_priority(victim, pod) and self._may_end(victim) and not self._would_return(victim, pod)

    def _has_lower_priority(self, victim: Pod, pod: Pod) -> bool:
        theirs, own = self.priority(victim), self.priority(pod)
        if theirs == own and victim.metadata.name in self.rescued:
            return False
        if self._options["allow_equal_priority"]:
            return theirs <= own
        critical = theirs >= CRITICAL_FROM or victim.spec.priority_class_name.startswith("system-")
        return theirs < own and not critical

    def _may_end(self, victim: Pod) -> bool:
        grace = victim.spec.termination_grace_period_seconds
        too_long = (30 if grace is None else grace) > self._options["grace_period"]
        if too_long and not self._options["allow_short_grace"]:
            return False
        return self._options["allow_local_storage"] or not any(volume.local for volume in victim.spec.volumes or ())

    def _would_return(self, victim: Pod, pod: Pod) -> bool:
        """Its replacement has the same priority, and can run where the pod was while the capacity is held, and nowhere else."""
        if (victim.spec.priority or 0) < (pod.spec.priority or 0):
            return False
        if not victim.spec.node_name:
            return False  # it was bound later, and this snapshot does not show its other places of that time
        node = self.snapshot.nodes[victim.spec.node_name]
        values = [taint.value for taint in node.spec.taints or () if taint.key == HOLD_KEY and taint.effect == "NoSchedule"]
        if values:  # a permanent taint replaces that of the hold
            tolerates = tolerates_any_hold(victim) or all(_tolerates_value(victim, value) for value in values)
        else:
            tolerates = self._options["hold"] != "none" and tolerates_any_hold(victim)
        return tolerates and not self._has_another_place(victim)

    def _has_another_place(self, victim: Pod) -> bool:
        now = self.cluster_state.fork()
        now.remove(victim)
        replacement = replace(
            victim, metadata=replace(victim.metadata, uid="", name="replacement"), spec=replace(victim.spec, node_name="")
        )
        found = find_feasible(replacement, now)
        return not found.unknown and any(name != victim.spec.node_name for name in found.feasible)

    # --- together ---------------------------------------------------------------------------------------------------------

    def permits(self, victims: Sequence[Pod], evicted: int) -> bool:
        """The bound on victims and all budgets, for all of them together."""
        most = self._options["max_victims"]
        if most is not None and evicted + len(victims) > most:
            return False
        drawn: Counter[str] = Counter()
        for victim in victims:
            budgets = self.budgets_of(victim)
            if len(budgets) > 1:
                return False
            drawn.update(budget.metadata.name for budget in budgets if not _goes_uncounted(victim, budget))
        namespaces = {victim.metadata.namespace for victim in victims}
        allowed = {
            budget.metadata.name: budget.status.disruptions_allowed
            for namespace in namespaces
            for budget in self.snapshot.budgets_by_namespace.get(namespace, ())
        }
        return all(number <= allowed[name] for name, number in drawn.items())

    def budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        budgets = self.snapshot.budgets_by_namespace.get(pod.metadata.namespace, ())
        return [budget for budget in budgets if matches(budget.spec.selector, pod.metadata.labels)]

    def can_hold(self, node: Node, pod: Pod, victims: Sequence[Pod]) -> bool:
        """The capacity is held for the pod: by a taint, by its priority, or the options do not require it."""
        if self._options["hold"] == "none" or self.keeps(node, pod):
            return True
        own = pod.spec.priority or 0
        # Of several the first to go would be replaced before the last one has left.
        return self._options["hold"] == "auto" and len(victims) <= 1 and all(self.priority(victim) < own for victim in victims)

    def keeps(self, node: Node, pod: Pod) -> bool:
        """A taint holds the capacity for the pod: a permanent one, or one that the rescue sets."""
        if any(taint.key == HOLD_KEY and taint.effect == "NoSchedule" for taint in node.spec.taints or ()):
            return True
        return tolerates_any_hold(pod) and self._options["hold"] != "none"


def tolerates_any_hold(pod: Pod) -> bool:
    """The value of a hold is another for each pod: only who tolerates any value tolerates it."""
    return any(
        toleration.operator == "Exists" and toleration.key in ("", HOLD_KEY) and toleration.effect in ("", "NoSchedule")
        for toleration in pod.spec.tolerations or ()
    )


def _tolerates_value(pod: Pod, value: str) -> bool:
    """It tolerates the taint with this value."""
    return any(
        toleration.operator == "Equal"
        and (toleration.key, toleration.value) == (HOLD_KEY, value)
        and toleration.effect in ("", "NoSchedule")
        for toleration in pod.spec.tolerations or ()
    )


def _would_preempt(victim: Pod, pod: Pod) -> bool:
    """The scheduler, for which the annotation counts nothing, may delete the rescued pod for what replaces the victim."""
    return (victim.spec.priority or 0) > (pod.spec.priority or 0) and victim.spec.preemption_policy != "Never"


def _goes_uncounted(victim: Pod, budget: PodDisruptionBudget) -> bool:
    status = budget.status
    return not victim.ready and status.current_healthy >= status.desired_healthy > 0
