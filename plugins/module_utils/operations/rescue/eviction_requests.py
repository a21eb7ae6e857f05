# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Eviction requests in threads of their own. A slow answer, for example behind an admission webhook, delays no other rescue.

After a lost answer, ``RescueExecutor.resolve_uncertain`` reads the pod.
"""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import Future, wait

from ...kube.background import run_in_background
from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, UnreachableError, answer_was_lost
from ...rescue.plan import Victim

WAIT_FOR_ANSWER_S = 0.5
"""Seconds to wait for an answer.

A usual eviction takes some milliseconds. If the answer comes later, the next request for this eviction returns it.
"""

KEEP_ANSWERS_S = 60.0
"""Seconds to keep an answer that is not used. A request of a leader ends much sooner."""

REQUEST_TIMEOUT_S = 10.0
"""Seconds after which a request of a leader has ended, also in the API server (``KubeApi._write``)."""

_Key = tuple[str, int, bool]


class _Asked(t.NamedTuple):
    answer: Future[None]
    at_s: float


class EvictionPendingError(UnreachableError):
    """The request is in progress. The next call for this eviction sends nothing; it returns the answer."""


class EvictionRequests:
    """Requests evictions, each in a thread of its own."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._requests: dict[_Key, _Asked] = {}
        self._lost_until_s = 0.0

    def request(self, victim: Victim, *, dry_run: bool) -> None:
        """Evict the pod. Raise the errors of ``KubeApi.evict``, and EvictionPendingError if there is no answer yet."""
        now_at_s, key = time.monotonic(), _key(victim, dry_run)
        self._requests = {known: asked for known, asked in self._requests.items() if now_at_s < asked.at_s + KEEP_ANSWERS_S}
        if key not in self._requests:
            self._requests[key] = _Asked(run_in_background(lambda: self._send(victim, dry_run)), now_at_s)
        future = self._requests[key].answer
        # The future is read once: if the answer comes after this line, the next request for the eviction returns it.
        if future not in wait([future], WAIT_FOR_ANSWER_S).done:
            metadata = victim.pod.metadata
            raise EvictionPendingError(f"the eviction of {metadata.namespace}/{metadata.name} is not answered yet")
        del self._requests[key]
        future.result(0)

    @property
    def has_pending(self) -> bool:
        """True if the API server may still carry out an eviction that was sent, even if its answer was lost."""
        return bool(self._unanswered) or time.monotonic() < self._lost_until_s

    def is_pending(self, pod_uid: str) -> bool:
        """Return whether an eviction of the pod is in progress, so that its result is not known yet."""
        return pod_uid in self._unanswered

    @property
    def _unanswered(self) -> set[str]:
        return {uid for (uid, _grace, dry_run), asked in self._requests.items() if not dry_run and not asked.answer.done()}

    def _send(self, victim: Victim, dry_run: bool) -> None:
        metadata = victim.pod.metadata
        try:
            self._api.evict(metadata.namespace, metadata.name, uid=metadata.uid, dry_run=dry_run, grace_period_s=victim.grace_period_s)
        except KubeError as error:
            if not dry_run and answer_was_lost(error):
                self._lost_until_s = time.monotonic() + REQUEST_TIMEOUT_S
            raise


def _key(victim: Victim, dry_run: bool) -> _Key:
    return victim.pod.metadata.uid, victim.grace_period_s, dry_run
