# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An index to find the PodDisruptionBudgets of pods. ``snapshot.once(BudgetIndex)`` returns the index of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from ..api.policy import PodDisruptionBudget
from ..selectors.selector_index import SelectorIndex
from ..snapshot import ClusterSnapshot


class BudgetIndex:
    """The budgets of a snapshot by namespace and selector. A namespace is indexed at its first use."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._by_namespace = snapshot.budgets_by_namespace
        self._indexes: dict[str, SelectorIndex[PodDisruptionBudget]] = {}

    def selecting(self, namespace: str, *label_sets: Mapping[str, str] | None) -> list[PodDisruptionBudget]:
        """Return the budgets of the namespace that select a pod with one of these label sets, in the order of the snapshot."""
        index = self._indexes.get(namespace)
        if index is None:
            budgets = self._by_namespace.get(namespace, ())
            index = self._indexes[namespace] = SelectorIndex((budget.spec.selector, budget) for budget in budgets)
        return index.selecting(*label_sets)
