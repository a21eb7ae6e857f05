# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes down and counts what the rescues do."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Sequence

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.case import RESCUED, Case
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.rescuer import waited_s
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.witness import Witness

from ...plugins.module_utils.model.undecodable import Undecodable
from ...plugins.module_utils.rescue.plan import PLANNED, Victim
from .log import Log
from .metrics import RESULTS, Metrics
from .watchdog import Watchdog

SAID_AGAIN_AFTER_S = 60.0


class Observer(Witness):
    """``now_s``: the API server's clock. ``leading``: this process has the Lease; what the others see, it counts for all of them."""

    def __init__(
        self, log: Log, metrics: Metrics, watchdog: Watchdog, *, now_s: t.Callable[[], float], leading: t.Callable[[], bool]
    ) -> None:
        self._log, self._metrics, self._watchdog = log, metrics, watchdog
        self._now_s, self._leading = now_s, leading
        self._pending_since: dict[str, float] = {}
        self._said: dict[str, float] = {}
        self._undecodable: frozenset[tuple[str, str, str]] = frozenset()

    def planned(self, case: Case, seconds: float) -> None:
        """A look at the cluster and a judgement took so long."""
        self._watchdog.beat()
        self._metrics.planning.observe(seconds)
        self._pending_since.setdefault(case.uid, time.monotonic() - waited_s(case.since_s, self._now_s()))

    def judged(self, case: Case) -> None:
        """Said when it has become another."""
        plan = _plan_of(case) if case.status == PLANNED else {}
        self._log.info("pod judged", pod=case.name, uid=case.uid, status=case.status, **_why(case.reason), **plan)

    def held(self, case: Case) -> None:
        """Said."""
        self._log.info("node held", pod=case.name, uid=case.uid, **_plan_of(case))

    def evicted(self, case: Case, victim: Victim) -> None:
        """Said and counted."""
        self._metrics.evictions.inc()
        self._log.info(
            "pod evicted",
            pod=_pod_of(victim),
            priority=victim.priority,
            grace_period=victim.grace_period,
            node=victim.pod.spec.node_name,
            critical_pod=case.name,
            **_why(victim.reason),
        )

    def released(self, node_name: str, pod_name: str) -> None:
        """Said."""
        self._log.info("node given back", node=node_name, pod=pod_name)

    def ended(self, case: Case) -> None:
        """Counted by whoever leads: what this process did, and how long the pod was without a node, whoever placed it."""
        since_at_s = self._pending_since.pop(case.uid, None)
        seconds = time.monotonic() - since_at_s if since_at_s is not None else waited_s(case.since_s, self._now_s())
        if self._leading():
            if case.changed and case.status in RESULTS:
                self._metrics.rescues.labels(case.status).inc()
            if case.status == RESCUED:
                self._metrics.bound.observe(seconds)
        evicted = [_pod_of(victim) for victim in case.evicted]
        self._log.info(
            "pod no longer waits",
            pod=case.name,
            uid=case.uid,
            status=case.status,
            **_why(case.reason),
            node=case.pod.spec.node_name or None,
            evicted=evicted,
            seconds=round(seconds, 3),
        )

    def undecodable(self, objects: Sequence[Undecodable]) -> None:
        """Counted; each version of an object is said once."""
        self._metrics.show_undecodable(one.kind for one in objects)
        versions = {(one.name, one.metadata.uid, one.metadata.resource_version): one for one in objects}
        for version, one in versions.items():
            if version not in self._undecodable:
                self._log.warning("object cannot be decoded", object=one.name, uid=one.metadata.uid, text=one.message)
        self._undecodable = frozenset(versions)

    def troubled(self, what: str) -> None:
        """Counted each time; the same words are said at most once a minute."""
        self._watchdog.beat()
        self._metrics.troubles.inc()
        now_at_s = time.monotonic()
        self._said = {text: at_s for text, at_s in self._said.items() if now_at_s - at_s < SAID_AGAIN_AFTER_S}
        if what not in self._said:
            self._said[what] = now_at_s
            self._log.warning(what)

    def forget_all_but(self, uids: t.Container[str]) -> None:
        """Pods that are no longer anybody's business, and have not ended as a case."""
        for uid in [uid for uid in self._pending_since if uid not in uids]:
            del self._pending_since[uid]


def _plan_of(case: Case) -> dict[str, t.Any]:
    choice = case.judgement.choice if case.judgement is not None else None
    return {} if choice is None else {"node": choice.node, "victims": [_pod_of(victim) for victim in choice.victims]}


def _pod_of(victim: Victim) -> str:
    return f"{victim.pod.metadata.namespace}/{victim.pod.metadata.name}"


def _why(reason: Reason | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason.code, "text": reason.text or reason.code}
