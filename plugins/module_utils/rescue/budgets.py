# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""How many pods PodDisruptionBudgets let go, as the API server counts evictions.

Source: kubernetes ``pkg/registry/core/pod/storage/eviction.go``. A dry run of each eviction cannot see that several of them together take
more from a budget than it has: this ledger can.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

from ..model.objects import Labels, Pod, PodDisruptionBudget
from ..model.reasons import Reason
from ..model.selectors import matches
from ..model.snapshot import ClusterSnapshot

ALWAYS_ALLOW = "AlwaysAllow"

BUDGET = "budget"
SEVERAL_BUDGETS = "several_budgets"
BUDGETS_NOT_READABLE = "budgets_not_readable"

BudgetKey = tuple[str, str]
"""Namespace and name."""


class Budgets:
    """What is left of the budgets of a snapshot; ``take`` counts evictions that are planned, so that several plans share one ledger."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._by_namespace = snapshot.budgets_by_namespace
        self._by_key = {_key(budget): budget for budgets in self._by_namespace.values() for budget in budgets}
        self._unread = {entry.namespace for entry in snapshot.skipped if entry.resource == "poddisruptionbudgets"}
        self._by_label = _by_one_label(self._by_namespace)
        # By the identity of the labels, which the pods of one template share; the labels are kept, so that no others get their id.
        self._selecting: dict[tuple[str, int], tuple[t.Optional[Labels], list[PodDisruptionBudget]]] = {}
        self._taken: Counter[BudgetKey] = Counter()

    def copy(self) -> Budgets:
        """A ledger that starts equal to this one; neither sees what is taken from the other afterwards."""
        other = object.__new__(Budgets)
        other._by_namespace, other._by_key = self._by_namespace, self._by_key
        other._unread, other._selecting, other._by_label = self._unread, self._selecting, self._by_label
        other._taken = Counter(self._taken)
        return other

    def forbids(self, pod: Pod) -> t.Optional[Reason]:
        """Why the pod may not be evicted now, not even alone; None where it may."""
        if not self._unread and (not self._by_namespace or pod.metadata.namespace not in self._by_namespace):
            return None
        if not self._applies(pod):
            return None
        if self._unread and not self._unread.isdisjoint(("", pod.metadata.namespace)):
            return Reason(BUDGETS_NOT_READABLE, "PodDisruptionBudgets could not be read")
        found = self._of(pod)
        if len(found) > 1:
            names = " and ".join(sorted(budget.metadata.name for budget in found))
            return Reason(SEVERAL_BUDGETS, f"PodDisruptionBudgets {names} select it, and no pod with more than one is evicted")
        if not found or _goes_uncounted(pod, found[0]) or self.left(_key(found[0])) > 0:
            return None
        return Reason(BUDGET, f"PodDisruptionBudget {pod.metadata.namespace}/{found[0].metadata.name} allows no disruption now")

    def draws_on(self, pod: Pod) -> t.Optional[BudgetKey]:
        """The budget that has less to give once the pod, which ``forbids`` lets go, is evicted; None where there is none."""
        if not self._by_namespace or pod.metadata.namespace not in self._by_namespace or not self._applies(pod):
            return None
        found = self._of(pod)
        return None if not found or _goes_uncounted(pod, found[0]) else _key(found[0])

    def left(self, key: BudgetKey) -> int:
        """How many more pods the budget lets go. Raises KeyError for one that the snapshot does not have."""
        budget = self._by_key[key]
        if budget.status.observed_generation < budget.metadata.generation:
            return 0  # its controller has not seen the newest spec: until then nothing is let go
        return max(0, budget.status.disruptions_allowed - self._taken[key])

    def exceeded(self, pods: Iterable[Pod]) -> t.Optional[Reason]:
        """Why the pods, each of which may go alone, may not all go; None where they may."""
        wanted = Counter(key for key in map(self.draws_on, pods) if key is not None)
        for key, number in sorted(wanted.items()):
            left = self.left(key)
            if number > left:
                return Reason(BUDGET, f"PodDisruptionBudget {key[1]} lets {left} of these {number} pods go")
        return None

    def take(self, pods: Iterable[Pod]) -> None:
        """The pods are going to be evicted: what they draw on has less to give."""
        self._taken.update(key for key in map(self.draws_on, pods) if key is not None)

    def _applies(self, pod: Pod) -> bool:
        """A pod that has not started, has finished or is on its way out is evicted whatever the budgets say."""
        return not (pod.status.phase == "Pending" or pod.terminal or pod.terminating)

    def _of(self, pod: Pod) -> list[PodDisruptionBudget]:
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        if namespace not in self._by_namespace:
            return []
        key = (namespace, id(labels))
        known = self._selecting.get(key)
        if known is None:
            likely = [budget for label in (None, *(labels or {}).items()) for budget in self._by_label.get((namespace, label), ())]
            found = [budget for budget in likely if matches(budget.spec.selector, labels)]
            known = self._selecting[key] = (labels, found)
        return known[1]


def _by_one_label(
    by_namespace: t.Mapping[str, Iterable[PodDisruptionBudget]],
) -> dict[tuple[str, t.Optional[tuple[str, str]]], list[PodDisruptionBudget]]:
    """The budgets by their namespace and a label that all their pods have, None where there is no such: most need not be compared."""
    found: dict[tuple[str, t.Optional[tuple[str, str]]], list[PodDisruptionBudget]] = {}
    for namespace, budgets in by_namespace.items():
        for budget in budgets:
            wanted = (budget.spec.selector.match_labels if budget.spec.selector is not None else None) or {}
            found.setdefault((namespace, next(iter(wanted.items()), None)), []).append(budget)
    return found


def _goes_uncounted(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """The pod is not ready, so that it is none of those that the budget counts as healthy."""
    if pod.ready:
        return False
    status = budget.status
    enough_without_it = status.current_healthy >= status.desired_healthy > 0
    return budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW or enough_without_it


def _key(budget: PodDisruptionBudget) -> BudgetKey:
    return budget.metadata.namespace, budget.metadata.name
