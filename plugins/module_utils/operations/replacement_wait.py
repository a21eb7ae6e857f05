# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Waits until an evicted pod is gone and all replicas of its workload are available again."""

from __future__ import annotations

import time
import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.resources import PODS
from ..model.api.meta import LabelSelector
from ..model.api.pod import Pod
from ..model.api.workload import Workload
from ..model.selectors.label_selector import as_query
from ..spread.eviction_plan import all_available, waiting_for
from ..spread.rollout_status import FAILED, WAITING, Progress
from ..spread.unhealthy import hanging_container, why_not_ready
from .live import read_live
from .workload_wait import ERROR, created_again, wait_for_workload, watch_if_allowed

_WATCH_S = 60.0


def wait_for_replacement(
    api: KubeApi,
    workload: Workload,
    *,
    owner: str,
    gone: str,
    template: t.Optional[bytes],
    timeout_s: float,
    poll_s: float,
    clock: t.Callable[[], float] = time.monotonic,
) -> Progress:
    """Wait until all replicas are there, ready and counted as available, and the pod with uid ``gone`` is not.

    ``owner`` is the uid that controls the pods, ``template`` the workload's as the server wrote it when the pod went, None for the one of
    now. The state is ``waiting`` after ``timeout_s``, and ``failed`` where somebody changed the template or created the workload again, or
    where a container waits with an error that does not end by itself. Raises NotFoundError if the workload is deleted, and UnreachableError
    if the API server stays away.
    """
    deadline = clock() + timeout_s
    pods = _Pods(api, workload, owner)
    may_watch = True
    while True:
        live, template_now = read_live(api, workload)
        if live.metadata.uid != workload.metadata.uid:
            return created_again(live)
        template = template if template is not None else template_now
        if template_now != template:
            return Progress(FAILED, f"somebody changed {workload} meanwhile")
        found = pods.read()
        away = waiting_for(live, found, gone)
        left_s = deadline - clock()
        if not away:
            return wait_for_workload(api, live, all_available, timeout_s=left_s, poll_s=poll_s, hanging=lambda _workload: pods.hanging())[1]
        staying = [pod for pod in found if not pod.terminating and pod.metadata.uid != gone]
        hanging = hanging_container(staying)
        if hanging:
            return Progress(FAILED, f"{away}: {hanging}")
        if left_s <= 0:
            return Progress(WAITING, ": ".join(filter(None, (away, why_not_ready(staying)))))
        if may_watch:
            ending = next((pod for pod in found if pod.terminating or pod.metadata.uid == gone), None)
            may_watch = pods.watch(live, ending, timeout_s=min(left_s, _WATCH_S))
        else:
            time.sleep(min(poll_s, left_s))


class _Pods:
    """The unfinished pods that one owner controls."""

    def __init__(self, api: KubeApi, workload: Workload, owner: str) -> None:
        self._api = api
        self._namespace = workload.metadata.namespace
        self._selector = as_query(workload.spec.selector or LabelSelector())
        self._owner = owner

    def read(self) -> list[Pod]:
        pods = self._api.list_all(PODS, namespace=self._namespace, label_selector=self._selector)
        return [pod for pod in pods if self._counts(pod)]

    def hanging(self) -> str:
        """Return the container that keeps its pod from being available, in words: a pod may crash after it was ready. Empty: none."""
        return hanging_container(pod for pod in self.read() if not pod.terminating)

    def watch(self, workload: Workload, ending: t.Optional[Pod], *, timeout_s: float) -> bool:
        """Return when ``ending`` is gone or, without it, when all replicas are ready, or the watch has ended; False where forbidden."""
        if ending is not None:
            return watch_if_allowed(lambda: self._see_end(ending, timeout_s))
        return watch_if_allowed(lambda: self._see_replicas(workload, timeout_s))

    def _see_end(self, pod: Pod, timeout_s: float) -> bool:
        version = pod.metadata.resource_version
        for event in self._api.watch(PODS, self._namespace, pod.metadata.name, resource_version=version, timeout_s=timeout_s):
            if event.type != "MODIFIED":
                return event.type != ERROR
        return False

    def _see_replicas(self, workload: Workload, timeout_s: float) -> bool:
        known: dict[str, Pod] = {}
        for event in self._api.watch_selected(PODS, self._namespace, label_selector=self._selector, timeout_s=timeout_s):
            if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                return False
            pod: Pod = PODS.read(bytes(event.object))
            known.pop(pod.metadata.uid, None)
            if event.type != "DELETED" and self._counts(pod):
                known[pod.metadata.uid] = pod
            staying = [pod for pod in known.values() if not pod.terminating]
            if not waiting_for(workload, known.values()) or hanging_container(staying):
                return True
        return False

    def _counts(self, pod: Pod) -> bool:
        controller = pod.metadata.controller
        return controller is not None and controller.uid == self._owner and not pod.terminal
