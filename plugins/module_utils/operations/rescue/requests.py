# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Requests about pods: evictions, the reads from the API server before and after them, and nominations.

Each eviction has a thread of its own, so that a slow answer, for example behind an admission webhook, delays no other rescue. A watch may
be seconds behind, and an eviction cannot be undone. The pod, the victim and the node are therefore read before each eviction, and the
victim after a lost answer (``Effects.resolve``).
"""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import Future, wait

from ...kube.background import run_in_background
from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, NotFoundError, PatchTestError, ResponseDecodeError, UnreachableError, answer_was_lost
from ...kube.client.resources import NODES, POD_STATUS, PODS
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.values.quantity import QuantityError
from ...model.values.quantity_check import check_quantities
from ...rescue.critical import is_unschedulable
from ...rescue.plan import Victim
from ...state.hold import Hold

WAIT_FOR_ANSWER_S = 0.5
"""Seconds to wait for an answer.

A usual eviction takes some milliseconds. If the answer comes later, the next request for this eviction returns it.
"""

KEEP_ANSWERS_S = 60.0
"""Seconds to keep an answer that is not used. A request of a leader ends much sooner."""

REQUEST_TIMEOUT_S = 10.0
"""Seconds after which a request of a leader has ended, also in the API server (``KubeApi._write``)."""


class _Asked(t.NamedTuple):
    answer: Future[None]
    at_s: float


class EvictionPendingError(UnreachableError):
    """The request is in progress. The next call for this eviction sends nothing; it returns the answer."""


class EvictionRequests:
    """Requests evictions, each in a thread of its own."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._requests: dict[tuple[str, int, bool], _Asked] = {}
        self._lost_until_s = 0.0

    def request(self, victim: Victim, *, dry_run: bool) -> None:
        """Evict the pod. Raise the errors of ``KubeApi.evict``, and EvictionPendingError if there is no answer yet."""
        now_at_s, key = time.monotonic(), (victim.pod.metadata.uid, victim.grace_period_s, dry_run)
        self._requests = {known: asked for known, asked in self._requests.items() if now_at_s < asked.at_s + KEEP_ANSWERS_S}
        if key not in self._requests:
            self._requests[key] = _Asked(run_in_background(lambda: self._send(victim, dry_run)), now_at_s)
        future = self._requests[key].answer
        # The future is read once: if the answer comes after this line, the next request for the eviction returns it.
        if future not in wait([future], WAIT_FOR_ANSWER_S).done:
            raise EvictionPendingError(f"the eviction of {victim.pod.metadata.full_name} is not answered yet")
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


EVICTION_API_REASON = "EvictionByEvictionAPI"
"""The reason of the condition DisruptionTarget that the API server writes on the pods it evicts."""

HOLD_LOST = Reason("hold_lost", "the taint that reserved the node was removed")


def read_pod(api: KubeApi, known: Pod) -> t.Optional[Pod]:
    """Return the current state of exactly this pod. None if it is gone, even if another pod has its name. Raise KubeError."""
    metadata = known.metadata
    try:
        found: Pod = api.get(PODS, metadata.namespace, metadata.name)
        check_quantities(found)
    except NotFoundError:
        return None
    except QuantityError as error:
        raise ResponseDecodeError(f"pods {metadata.full_name}: {error}") from error
    return found if found.metadata.uid == metadata.uid else None


def read_node(api: KubeApi, name: str) -> t.Optional[Node]:
    """Return the current state of the node. None if it is gone. Raise KubeError."""
    try:
        found: Node = api.get(NODES, "", name)
    except NotFoundError:
        return None
    return found


def is_evicted(now: t.Optional[Pod]) -> bool:
    """Return whether the pod of an eviction without an answer was evicted. A pod that is gone counts as evicted by this program."""
    return now is None or (now.terminating and now.disruption_reason == EVICTION_API_REASON)


def pod_changed_violation(now: t.Optional[Pod], known: Pod, node_name: str) -> t.Optional[Reason]:
    """Return the reason why no pod of the node may be evicted for this pod. None if it still waits and is not nominated elsewhere."""
    if now is None:
        return Reason("pod_gone", "it is gone")
    if now.spec.node_name:
        return Reason("bound", f"it is bound to node {now.spec.node_name}")
    nominated = now.status.nominated_node_name
    if nominated not in ("", node_name, known.status.nominated_node_name):
        return Reason("preemption_under_way", f"it is nominated for node {nominated}")
    return None if is_unschedulable(now) else Reason("not_reported_yet", "it no longer waits for a node")


def lost_hold_violation(node: Node, hold: t.Optional[Hold]) -> t.Optional[Reason]:
    """Return the reason if the taint of the hold has been removed. None if it is there, or if no taint reserves the node."""
    if hold is None or hold.taint in (node.spec.taints or ()):
        return None
    return HOLD_LOST


_NOMINATION_PATH = "/status/nominatedNodeName"


def nominate(api: KubeApi, pod: Pod, node_name: str, *, dry_run: bool = False) -> bool:
    """Nominate exactly this pod for the node, as the scheduler does when it preempts (KEP-5278).

    Pods of lower priority must not use the capacity then. A pod is nominated also if a taint holds its node: after several failed attempts
    the scheduler waits up to ten seconds before it tries the pod again. Without a nomination, the replacement of the victim got the
    capacity in 4 of 4 runs. With one, the pod got it in 8 of 8 runs.

    Return False if the pod is gone, bound, or already nominated for any node. Raise KubeError.
    """
    operation = {"op": "add", "path": _NOMINATION_PATH, "value": node_name}
    return _patch_nomination(api, pod.metadata, None, operation, dry_run=dry_run)


def withdraw(api: KubeApi, pod: ObjectMeta, node_name: str) -> None:
    """Remove exactly this nomination, if it exists and the pod is not bound. Raise KubeError."""
    _patch_nomination(api, pod, node_name, {"op": "remove", "path": _NOMINATION_PATH})


def _patch_nomination(
    api: KubeApi, pod: ObjectMeta, nominated: t.Optional[str], operation: dict[str, t.Any], *, dry_run: bool = False
) -> bool:
    expected = {"/metadata/uid": pod.uid, "/spec/nodeName": None, _NOMINATION_PATH: nominated}
    tests = [{"op": "test", "path": path, "value": value} for path, value in expected.items()]
    try:
        api.json_patch(POD_STATUS, pod.namespace, pod.name, [*tests, operation], dry_run=dry_run)
    except (NotFoundError, PatchTestError):
        return False
    return True
