# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The time that one run waits until pods may be evicted: once for all workloads, and after all other work.

It waits for PodDisruptionBudgets that allow no disruption now, and for API servers and webhooks with transient errors. A decision that
depends on terminating pods uses the same time, but before all other work.
"""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import BudgetError, KubeError, is_transient
from ...kube.client.resources import BUDGETS
from ...model.backoff import Backoff
from ...model.budgets.ledger import BudgetKey, disruptions_allowed, opens_soon

BACKOFF = Backoff(1.0, 15.0)
SLOW_ANSWER_S = 3.0
"""An error that takes longer comes from a webhook that does not respond.

With hundreds of workloads the requests take longer than the pauses.
"""


class SlowError(t.NamedTuple):
    """An error of the server, which took ``took_s`` seconds."""

    error: KubeError
    took_s: float


class EvictionWait:
    """Waits until the server may grant an eviction, at most ``timeout_s`` seconds in total.

    ``over``: no time is left, so an eviction that is not granted now ends the work on its workload. With ``timeout_s`` 0 there is no wait.
    """

    def __init__(self, api: KubeApi, *, timeout_s: float) -> None:
        self._api = api
        self._left_s = timeout_s
        self._pauses = 0
        self._expected: set[BudgetKey] = set()
        self._pause_is_enough = False
        self._asked_s = 0.0
        self._slow: dict[str, SlowError] = {}

    @property
    def over(self) -> bool:
        """True if no time is left."""
        return self._left_s <= 0

    def expect(self, key: t.Optional[BudgetKey], *, after_s: t.Optional[float] = None) -> None:
        """Let the next ``wait`` end when this budget allows a disruption.

        With None, it ends after a pause, because only the server has more information. ``after_s`` is the pause in seconds that the server
        requires.
        """
        self._asked_s = max(self._asked_s, after_s or 0.0)
        if key is not None:
            self._expected.add(key)
        else:
            self._pause_is_enough = True

    def note(self, namespace: str, slow: SlowError) -> None:
        """Record an eviction in the namespace that ended in an error. If the error is transient and slow, its duration counts as wait."""
        of_server = is_transient(slow.error) and not isinstance(slow.error, BudgetError)
        if of_server and slow.took_s >= SLOW_ANSWER_S:
            self._slow.setdefault(namespace, slow)
            self._left_s -= slow.took_s

    def slow_error(self, namespace: str) -> t.Optional[SlowError]:
        """Return the slow error of the namespace since the last pause.

        None if there is none. Until the next pause, nothing is requested in that namespace.
        """
        return self._slow.get(namespace)

    def granted(self) -> None:
        """Begin with short pauses again after a granted eviction, because the budgets have changed."""
        self._pauses = 0

    def wait(self) -> None:
        """Sleep until one of the expected budgets may allow a disruption, or the time is over. Raise KubeError if they cannot be read."""
        expected, self._expected = self._expected, set()
        pause_is_enough, self._pause_is_enough = self._pause_is_enough, False
        while not self.over:
            self.pause()
            if pause_is_enough or any(map(self._may_have_opened, expected)):
                return

    def skip(self) -> None:
        """End the wait without a pause, for a plan."""
        self._left_s = 0
        self._slow.clear()

    def pause(self) -> None:
        """Sleep once. The pauses become longer."""
        self._pauses += 1
        pause_s = min(max(BACKOFF.pause_s(self._pauses), self._asked_s), self._left_s)
        self._asked_s = 0.0
        self._slow.clear()
        time.sleep(pause_s)
        self._left_s -= pause_s

    def _may_have_opened(self, key: BudgetKey) -> bool:
        """Return whether the workload must be checked again.

        The budget allows a disruption, is deleted, or cannot allow one without a change.
        """
        namespace, name = key
        found = [budget for budget in self._api.list_all(BUDGETS, namespace=namespace) if budget.metadata.name == name]
        return not found or disruptions_allowed(found[0]) > 0 or not opens_soon(found[0])
