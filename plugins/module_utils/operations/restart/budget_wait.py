# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The time that one run waits until pods may be evicted: once for all workloads, and after all other work.

PodDisruptionBudgets that let no pod go now are waited for, and API servers and webhooks that are in trouble.
"""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import BudgetError, KubeError, is_transient
from ...kube.client.resources import BUDGETS
from ...rescue.pdb_ledger import BudgetKey, disruptions_allowed, opens_soon

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 15.0
SLOW_ANSWER_S = 3.0
"""An error that takes longer is that of a webhook that hangs: with hundreds of workloads the requests take longer than the pauses."""


class Trouble(t.NamedTuple):
    """An error that the server needed ``took_s`` seconds for."""

    error: KubeError
    took_s: float


class BudgetWait:
    """Waits until the server may let a pod go, at most ``timeout_s`` seconds in all between two evictions that were granted.

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
        self._asked_s = 0.0
        self._slow: dict[str, Trouble] = {}

    @property
    def over(self) -> bool:
        """No time is left."""
        return self._left_s <= 0

    def expect(self, key: t.Optional[BudgetKey], *, after_s: t.Optional[float] = None) -> None:
        """The next ``wait`` ends when this budget lets a pod go; with None it ends after a pause, because only the server knows more.

        ``after_s``: the server asks for a pause of so many seconds.
        """
        self._asked_s = max(self._asked_s, after_s or 0.0)
        if key is not None:
            self._expected.add(key)
        else:
            self._pause_is_enough = True

    def note(self, namespace: str, trouble: Trouble) -> None:
        """An eviction in the namespace ended in an error. Where that is trouble of the server and took long, the time counts."""
        of_server = is_transient(trouble.error) and not isinstance(trouble.error, BudgetError)
        if of_server and trouble.took_s >= SLOW_ANSWER_S:
            self._slow.setdefault(namespace, trouble)
            self._left_s -= trouble.took_s

    def trouble(self, namespace: str) -> t.Optional[Trouble]:
        """The slow error of the namespace since the last pause; None where there is none. Until the next pause nothing is asked there."""
        return self._slow.get(namespace)

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
        pause_s = min(max(self._pause_s, self._asked_s), self._left_s)
        self._asked_s = 0.0
        self._slow.clear()
        time.sleep(pause_s)
        self._left_s -= pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _may_have_opened(self, key: BudgetKey) -> bool:
        """The budget lets a pod go, or is not there any more, or will not open without a change: then the workload is judged again."""
        namespace, name = key
        found = [budget for budget in self._api.list_all(BUDGETS, namespace=namespace) if budget.metadata.name == name]
        return not found or disruptions_allowed(found[0]) > 0 or not opens_soon(found[0])
