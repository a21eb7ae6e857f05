# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Evictions whose answer takes long, such as behind a slow admission webhook, delay no other rescue."""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import Future, wait

from ...kube.background import run_in_background
from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, KubeError, NotSentError, UnreachableError
from ...rescue.plan import Victim

WAIT_FOR_ANSWER_S = 0.5
"""A usual eviction is answered in some milliseconds. For a longer one nobody waits: its answer is taken when it is asked for again."""

KEEP_ANSWERS_S = 60.0
"""For how long an answer is kept that nobody takes. A request of a leader ends much sooner."""

REQUEST_TIMEOUT_S = 10.0
"""After so many seconds a request of a leader has ended, also in the API server (``KubeApi._write``)."""

_Key = tuple[str, int, bool]


class _Asked(t.NamedTuple):
    answer: Future[None]
    at_s: float


class EvictionPendingError(UnreachableError):
    """The request is on its way; asking again takes its answer and sends no second request."""


class EvictionRequests:
    """Asks for evictions, each in a thread of its own."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._requests: dict[_Key, _Asked] = {}
        self._lost_until_s = 0.0

    def request(self, victim: Victim, *, dry_run: bool) -> None:
        """Evict the pod. Raises as ``KubeApi.evict``, and EvictionPendingError where there is no answer yet."""
        now_at_s, key = time.monotonic(), _key(victim, dry_run)
        self._requests = {known: asked for known, asked in self._requests.items() if now_at_s < asked.at_s + KEEP_ANSWERS_S}
        if key not in self._requests:
            self._requests[key] = _Asked(run_in_background(lambda: self._send(victim, dry_run)), now_at_s)
        future = self._requests[key].answer
        # Decided once: an answer that comes after it is taken when the eviction is asked for again.
        if future not in wait([future], WAIT_FOR_ANSWER_S).done:
            metadata = victim.pod.metadata
            raise EvictionPendingError(f"the eviction of {metadata.namespace}/{metadata.name} is not answered yet")
        del self._requests[key]
        future.result(0)

    @property
    def has_pending(self) -> bool:
        """The API server may still carry out one of the evictions that were sent, also where its answer was lost."""
        return bool(self._unanswered) or time.monotonic() < self._lost_until_s

    def is_pending(self, pod_uid: str) -> bool:
        """An eviction of the pod is on its way: what becomes of it is not known yet."""
        return pod_uid in self._unanswered

    @property
    def _unanswered(self) -> set[str]:
        return {uid for (uid, _grace, dry_run), asked in self._requests.items() if not dry_run and not asked.answer.done()}

    def _send(self, victim: Victim, dry_run: bool) -> None:
        metadata = victim.pod.metadata
        try:
            self._api.evict(metadata.namespace, metadata.name, uid=metadata.uid, dry_run=dry_run, grace_period_s=victim.grace_period)
        except KubeError as error:
            if not dry_run and _was_lost(error):
                self._lost_until_s = time.monotonic() + REQUEST_TIMEOUT_S
            raise


def _was_lost(error: KubeError) -> bool:
    """The API server has not said how the request ended, so that it may go on with it: the answer is lost, or that of a proxy."""
    if isinstance(error, UnreachableError):
        return not isinstance(error, NotSentError)
    return isinstance(error, ApiError) and error.status >= 500 and error.reason is None


def _key(victim: Victim, dry_run: bool) -> _Key:
    return victim.pod.metadata.uid, victim.grace_period, dry_run
