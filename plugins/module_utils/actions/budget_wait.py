# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The time that one run waits for PodDisruptionBudgets which let no pod go now: once for all workloads, and after all other work."""

from __future__ import annotations

import time
import typing as t

from ..kube.api import KubeApi
from ..kube.resources import BUDGETS
from ..rescue.budgets import BudgetKey, disruptions_allowed, opens_soon

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0


class BudgetWait:
    """Waits until a budget lets a pod go, at most ``timeout_s`` seconds in all between two evictions that were granted.

    ``over``: no more time is left, so that a budget that lets no pod go ends the work on its workload. With ``timeout_s`` 0 nothing is
    waited for.
    """

    def __init__(self, api: KubeApi, *, timeout_s: float) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._left_s = timeout_s
        self._pause_s = FIRST_PAUSE_S
        self._expected: set[BudgetKey] = set()
        self._pause_is_enough = False

    @property
    def over(self) -> bool:
        """No time is left."""
        return self._left_s <= 0

    def expect(self, key: t.Optional[BudgetKey]) -> None:
        """The next ``wait`` ends when this budget lets a pod go; with None it ends after a pause, because only the server knows more."""
        if key is not None:
            self._expected.add(key)
        else:
            self._pause_is_enough = True

    def granted(self) -> None:
        """A pod was evicted: what the budgets let go has changed, and the time begins again."""
        if not self.over:
            self._left_s, self._pause_s = self._timeout_s, FIRST_PAUSE_S

    def wait(self) -> None:
        """Sleep until one of the expected budgets may let a pod go, or the time is over. Raises KubeError where they cannot be read."""
        expected, self._expected = self._expected, set()
        pause_is_enough, self._pause_is_enough = self._pause_is_enough, False
        while not self.over:
            self._pause()
            if pause_is_enough or any(map(self._may_have_opened, expected)):
                return

    def _pause(self) -> None:
        pause_s = min(self._pause_s, self._left_s)
        time.sleep(pause_s)
        self._left_s -= pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _may_have_opened(self, key: BudgetKey) -> bool:
        """The budget lets a pod go, or is not there any more, or will not open without a change: then the workload is judged again."""
        namespace, name = key
        found = [budget for budget in self._api.list_all(BUDGETS, namespace=namespace) if budget.metadata.name == name]
        return not found or disruptions_allowed(found[0]) > 0 or not opens_soon(found[0])
