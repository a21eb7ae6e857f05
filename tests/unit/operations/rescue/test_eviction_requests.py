# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Evictions whose answer comes late: each is sent once, and its answer is taken once."""

from __future__ import annotations

import typing as t
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import BudgetError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import ObjectMeta
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import requests
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.requests import (
    EvictionPendingError,
    EvictionRequests,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import Victim

VICTIM = Victim(Pod(metadata=ObjectMeta(name="v", namespace="app", uid="u")), 0, Reason("x", "x"), 1)


class Late(Future[None]):
    """Its answer comes directly after the wait for it has ended."""

    def result(self, timeout: float | None = None) -> None:
        if not self.done() and timeout is not None:
            self.set_exception(BudgetError("not now", status=429))
            raise NotDoneError
        return super().result(timeout)


def test_an_answer_that_comes_at_the_end_of_the_wait_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Late] = []

    def send(_call: t.Callable[[], None]) -> Late:
        sent.append(Late())
        return sent[-1]

    monkeypatch.setattr(requests, "run_in_background", send)
    monkeypatch.setattr(requests, "WAIT_FOR_ANSWER_S", 0.01)
    asked = EvictionRequests(t.cast(t.Any, None))
    with pytest.raises(EvictionPendingError):
        asked.request(VICTIM, dry_run=False)
    assert asked.is_pending("u")
    if not sent[0].done():
        sent[0].set_exception(BudgetError("not now", status=429))
    with pytest.raises(BudgetError):
        asked.request(VICTIM, dry_run=False)
    assert len(sent) == 1 and not asked.has_pending
