# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The number of pods that PodDisruptionBudgets allow to evict, as the API server counts evictions.

Source: kubernetes ``pkg/registry/core/pod/storage/eviction.go``. A dry run of each eviction does not show that several evictions together
exceed a budget. In a rescue, ``rescue/search/subset_search.py`` keeps the victims of one plan within ``disruptions_left``. For more than 16
pods, ``NodeCandidate`` in ``rescue/search/node_candidate.py`` does this. ``reserve`` counts the victims of earlier plans. The evictions of
``operations/restart/eviction.py`` are made one after the other.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Hashable, Iterable

from ..api.pod import Pod
from ..api.policy import PodDisruptionBudget
from ..messages import pluralize
from ..reason import Reason
from ..snapshot import ClusterSnapshot
from ..undecodable import UNDECODABLE
from .budget_index import BudgetIndex

BUDGET_KIND = "PodDisruptionBudget"
ALWAYS_ALLOW = "AlwaysAllow"

BUDGET = "budget"
SEVERAL_BUDGETS = "several_budgets"
BUDGETS_NOT_READABLE = "budgets_not_readable"

BudgetKey = tuple[str, str]
"""Namespace and name."""

SPECS, ANY_STATUS = "", "*"
"""In place of a name: the specs of all budgets of the namespace, and the status of any of them."""


class BudgetStatus(t.NamedTuple):
    """The result of the budgets for a pod.

    ``violation``: the reason why it may not be evicted now, not even alone. ``budget``: the budget that its eviction counts against.
    """

    violation: t.Optional[Reason]
    budget: t.Optional[BudgetKey]


_FREE = BudgetStatus(None, None)


class PdbLedger:
    """The disruptions that the budgets of a snapshot still allow.

    ``reserve`` counts planned evictions, so that several plans share one ledger.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._by_key = {_key(budget): budget for budgets in snapshot.budgets_by_namespace.values() for budget in budgets}
        self._unread = {entry.namespace for entry in snapshot.skipped if entry.resource == "poddisruptionbudgets"}
        self._index = snapshot.once(BudgetIndex)
        self._statuses: dict[Hashable, tuple[Pod, BudgetStatus]] = {}
        self._reserved: Counter[BudgetKey] = Counter()

    @property
    def reserved(self) -> int:
        """The number of evictions that ``reserve`` has counted."""
        return sum(self._reserved.values())

    def parts_of(self, pod: Pod, budget: t.Optional[BudgetKey]) -> Iterable[BudgetKey]:
        """Return the parts of the budgets on which the status of the pod depends. ``budget``: that of its status."""
        namespace = pod.metadata.namespace
        counted = budget if budget is not None or pod.ready else (namespace, ANY_STATUS)
        return ((namespace, SPECS),) if counted is None else ((namespace, SPECS), counted)

    def changed_since(self, earlier: PdbLedger) -> t.Optional[set[BudgetKey]]:
        """Return the parts of the budgets that may differ from the earlier ledger, as in ``parts_of``. Return None if all may differ."""
        mine, others = self._snapshot, earlier._snapshot
        if self._unread != earlier._unread or mine.undecodable_of(BUDGET_KIND) != others.undecodable_of(BUDGET_KIND):
            return None
        before, now = others.budgets_by_namespace, mine.budgets_by_namespace
        changed = {*self._reserved, *earlier._reserved}
        for namespace in before.keys() | now.keys():
            known, present = ({one.metadata.name: one for one in budgets.get(namespace, ())} for budgets in (before, now))
            if {name: one.spec for name, one in known.items()} != {name: one.spec for name, one in present.items()}:
                changed.add((namespace, SPECS))
            else:
                changed.update((namespace, name) for name, one in present.items() if one is not known[name])
        return changed.union((namespace, ANY_STATUS) for namespace, _name in tuple(changed))

    def violation(self, pod: Pod) -> t.Optional[Reason]:
        """Return the reason why the pod may not be evicted now, not even alone. Return None if it may."""
        return self.status(pod, budget_status_key(pod)).violation

    def budget_of(self, pod: Pod) -> t.Optional[BudgetKey]:
        """Return the budget that the eviction of the pod counts against. Return None if there is none.

        ``violation`` must be None for the pod.
        """
        return self.status(pod, budget_status_key(pod)).budget

    def status(self, pod: Pod, kind: Hashable) -> BudgetStatus:
        """Return the BudgetStatus of the pod, for a caller that already has ``kind``, which is ``budget_status_key(pod)``."""
        known = self._statuses.get(kind)
        if known is None:
            # The pod is stored, so that its parts are not freed and their ids are not reused.
            known = self._statuses[kind] = pod, self._find_status(pod)
        return known[1]

    def _find_status(self, pod: Pod) -> BudgetStatus:
        if not self._applies(pod):
            return _FREE
        unread = next((place for place in ("", pod.metadata.namespace) if place in self._unread), None)
        if unread is not None:
            return BudgetStatus(Reason(BUDGETS_NOT_READABLE, _not_readable(unread)), None)
        undecodable = self._snapshot.undecodable_budget(pod)
        if undecodable is not None:
            return BudgetStatus(Reason(UNDECODABLE, f"{undecodable.text}; it protects every pod that it may select"), None)
        found = self._selecting(pod)
        if len(found) > 1:
            names = " and ".join(sorted(budget.metadata.name for budget in found))
            text = f"PodDisruptionBudgets {names} select it, and no pod with more than one is evicted"
            return BudgetStatus(Reason(SEVERAL_BUDGETS, text), None)
        if not found or _is_not_counted(pod, found[0]):
            return _FREE
        key = _key(found[0])
        if self.disruptions_left(key) > 0:
            return BudgetStatus(None, key)
        return BudgetStatus(Reason(BUDGET, f"PodDisruptionBudget {key[0]}/{key[1]} allows no disruption now"), key)

    def disruptions_left(self, key: BudgetKey) -> int:
        """Return how many more evictions the budget allows. Raise KeyError for a budget that the snapshot does not have."""
        return max(0, disruptions_allowed(self._by_key[key]) - self._reserved[key])

    def opens_soon(self, key: BudgetKey) -> bool:
        """Return the result of the function ``opens_soon`` for the budget with this key."""
        return opens_soon(self._by_key[key])

    def status_text(self, key: BudgetKey) -> str:
        """Return the counts of the budget's status as text."""
        status = self._by_key[key].status
        if disruptions_allowed(self._by_key[key]) == 0 and not self._by_key[key].is_observed:
            return "its controller has not seen its newest spec"
        required = pluralize(status.desired_healthy, "healthy pod")
        return f"{status.current_healthy} of {status.expected_pods} pods are healthy, and it requires {required}"

    def reserve(self, pods: Iterable[Pod]) -> None:
        """Count the planned evictions of these pods: their budgets allow fewer evictions afterwards."""
        self._reserved.update(key for key in map(self.budget_of, pods) if key is not None)
        self._statuses.clear()

    def _applies(self, pod: Pod) -> bool:
        """Return whether budgets apply to the pod. A pod that is pending, finished or terminating is evicted regardless of budgets."""
        return not (pod.status.phase == "Pending" or pod.terminal or pod.terminating)

    def _selecting(self, pod: Pod) -> list[PodDisruptionBudget]:
        return self._index.selecting(pod.metadata.namespace, pod.metadata.labels)


def disruptions_allowed(budget: PodDisruptionBudget) -> int:
    """Return the number of pods that the budget allows to evict now; 0 until its controller has observed the newest spec."""
    return budget.status.disruptions_allowed if budget.is_observed else 0


def opens_soon(budget: PodDisruptionBudget) -> bool:
    """Return whether a budget that allows no disruption will allow one without a change of its spec.

    That is so when its controller or its pods become ready. A budget that requires as many healthy pods as exist never allows one.
    """
    if not budget.is_observed:
        return True
    return budget.sync_failure is None and budget.status.expected_pods > budget.status.desired_healthy


def budget_status_key(pod: Pod) -> Hashable:
    """Return a key that is equal for pods with the same BudgetStatus, while one of them exists.

    The pods of one template share their labels and conditions (model/interning.py).
    """
    return pod.metadata.namespace, id(pod.metadata.labels), id(pod.status.conditions), pod.status.phase, pod.terminating


def _is_not_counted(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Return whether the pod is not ready and may be evicted without the budget's permission.

    It is not one of the healthy pods that the budget counts.
    """
    if pod.ready:
        return False
    status = budget.status
    enough_without_it = status.current_healthy >= status.desired_healthy > 0
    return budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW or enough_without_it


def _not_readable(namespace: str) -> str:
    place = f"namespace {namespace}" if namespace else "all namespaces"
    return f"PodDisruptionBudgets in {place} may not be read (HTTP 403): grant the verbs list and watch on poddisruptionbudgets.policy"


def _key(budget: PodDisruptionBudget) -> BudgetKey:
    return budget.metadata.namespace, budget.metadata.name
