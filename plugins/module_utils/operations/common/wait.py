# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Waits for the state of a workload, or for the replacement of an evicted pod.

Both use a watch. They poll every few seconds only if watching is forbidden.
"""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, ExpiredError, ForbiddenError, UnreachableError
from ...kube.client.resources import PODS, WORKLOADS, Resource
from ...kube.client.watches import ERROR_EVENT
from ...model.api.meta import LabelSelector
from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.selectors.label_selector import as_query
from ...spread.replicas import availability_progress, missing_replicas_text
from ...spread.rollout import FAILED, WAITING, Progress
from ...spread.stuck_pods import stuck_container, unready_message
from .guarded_patch import read_live_workload

ProgressOf = t.Callable[[Workload], Progress]

_WATCH_S = 60.0
CHECK_EVERY_S = 5.0
"""Seconds between two checks for a blocked rollout. Its workload does not change then, so a watch of the workload shows nothing."""
WATCH_AT_MOST_EVERY_S = 1.0
"""Minimum seconds between two watches.

A watch may end immediately, many times: an API server that was just started may reject the version as too old, or a proxy may close
watches.
"""


def wait_for_workload(
    api: KubeApi,
    workload: Workload,
    progress_of: ProgressOf,
    *,
    timeout_s: float,
    poll_s: float,
    stuck: t.Optional[t.Callable[[Workload], str]] = None,
    clock: t.Callable[[], float] = time.monotonic,
) -> tuple[Workload, Progress]:
    """Wait until ``progress_of`` returns done or failed, or until ``timeout_s`` has passed (the state is ``waiting`` then).

    ``workload`` is the workload as it was last read or written; the wait starts from that version. After a broken or expired watch, the
    workload is read again. ``stuck`` returns the reason why the wait would be useless; the state is ``failed`` then. The state is also
    ``failed`` if another workload has the name now. Raise NotFoundError if the workload is deleted, and UnreachableError if the API server
    stays unreachable.
    """
    deadline = clock() + timeout_s
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    check_s = clock() + CHECK_EVERY_S if stuck is not None else float("inf")
    may_watch = True
    while True:
        progress = progress_of(workload)
        left_s = deadline - clock()
        if progress.state != WAITING or left_s <= 0:
            return workload, progress
        if stuck is not None and clock() >= check_s:
            cause = stuck(workload)
            if cause:
                return workload, Progress(FAILED, f"{progress.text}: {cause}")
            check_s = clock() + CHECK_EVERY_S
        if may_watch:
            may_watch = _watch_once(api, resource, workload, progress_of, min(left_s, _WATCH_S, max(0.0, check_s - clock())))
        else:
            time.sleep(min(poll_s, left_s))
        workload = api.get(resource, metadata.namespace, metadata.name)
        if workload.metadata.uid != metadata.uid:
            return workload, recreated_progress(workload)


def recreated_progress(workload: Workload) -> Progress:
    """Return the failed progress of a workload that was deleted and created again."""
    return Progress(FAILED, f"{workload} was deleted, and created again by another client")


def _watch_once(api: KubeApi, resource: Resource, workload: Workload, progress_of: ProgressOf, timeout_s: float) -> bool:
    """Watch until the progress is made or the watch has ended. Return False if watching is forbidden."""
    metadata = workload.metadata
    events = api.watch(resource, metadata.namespace, metadata.name, resource_version=metadata.resource_version, timeout_s=timeout_s)

    def see() -> bool:
        for event in events:
            if event.type == ERROR_EVENT:  # for example an expired version; the next read shows the state
                return False
            if event.type != "MODIFIED" or progress_of(resource.decode(bytes(event.object))).state != WAITING:
                return True
        return False

    return watch_if_allowed(see)


def watch_if_allowed(see: t.Callable[[], bool]) -> bool:
    """Run one watch with ``see``, which returns whether it saw the expected state.

    Return False if watching is forbidden. A watch that breaks or expires counts as ended. If the state was not seen, return only after
    ``WATCH_AT_MOST_EVERY_S``, or after the pause that an overloaded server requires.
    """
    due_s = time.monotonic() + WATCH_AT_MOST_EVERY_S
    try:
        if see():
            return True
    except ForbiddenError as error:
        if not error.early:
            return False
    except (ExpiredError, UnreachableError):
        pass
    except ApiError as error:
        if error.status < 500 and error.status != 429:
            raise
        due_s = max(due_s, time.monotonic() + (error.retry_after_s or 0.0))
    time.sleep(max(0.0, due_s - time.monotonic()))
    return True


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
    """Wait until all replicas exist, are ready and count as available, and the pod with uid ``gone`` does not exist.

    ``owner`` is the uid of the controller of the pods. ``template`` is the workload's template as the server wrote it before the eviction;
    None means the present one. The state is ``waiting`` after ``timeout_s``. It is ``failed`` if the template was changed, if the workload
    was created again, or if a container waits with a lasting error. Raise NotFoundError if the workload is deleted, and UnreachableError if
    the API server stays unreachable.
    """
    deadline = clock() + timeout_s
    pods = _PodsOfWorkload(api, workload, owner)
    may_watch = True
    while True:
        live, template_now = read_live_workload(api, workload)
        if live.metadata.uid != workload.metadata.uid:
            return recreated_progress(live)
        template = template if template is not None else template_now
        if template_now != template:
            return Progress(FAILED, f"{workload} was changed by another client meanwhile")
        found = pods.read()
        away = missing_replicas_text(live, found, gone)
        left_s = deadline - clock()
        if not away:
            return wait_for_workload(
                api, live, availability_progress, timeout_s=left_s, poll_s=poll_s, stuck=lambda _workload: pods.stuck()
            )[1]
        staying = [pod for pod in found if not pod.terminating and pod.metadata.uid != gone]
        stuck = stuck_container(staying)
        if stuck:
            return Progress(FAILED, f"{away}: {stuck}")
        if left_s <= 0:
            return Progress(WAITING, ": ".join(filter(None, (away, unready_message(staying)))))
        if may_watch:
            ending = next((pod for pod in found if pod.terminating or pod.metadata.uid == gone), None)
            may_watch = pods.watch(live, ending, timeout_s=min(left_s, _WATCH_S))
        else:
            time.sleep(min(poll_s, left_s))


class _PodsOfWorkload:
    """The unfinished pods that one owner controls."""

    def __init__(self, api: KubeApi, workload: Workload, owner: str) -> None:
        self._api = api
        self._namespace = workload.metadata.namespace
        self._selector = as_query(workload.spec.selector or LabelSelector())
        self._owner = owner

    def read(self) -> list[Pod]:
        pods = self._api.list_all(PODS, namespace=self._namespace, label_selector=self._selector)
        return [pod for pod in pods if self._counts(pod)]

    def stuck(self) -> str:
        """Return a text about the container that keeps its pod from being available; empty if there is none.

        A pod may crash after it was ready.
        """
        return stuck_container(pod for pod in self.read() if not pod.terminating)

    def watch(self, workload: Workload, ending: t.Optional[Pod], *, timeout_s: float) -> bool:
        """Watch until ``ending`` is gone or, without it, all replicas are ready or one is stuck, or until the watch has ended.

        Return False if watching is forbidden.
        """
        if ending is not None:
            return watch_if_allowed(lambda: self._see_end(ending, timeout_s))
        return watch_if_allowed(lambda: self._see_replicas(workload, timeout_s))

    def _see_end(self, pod: Pod, timeout_s: float) -> bool:
        version = pod.metadata.resource_version
        for event in self._api.watch(PODS, self._namespace, pod.metadata.name, resource_version=version, timeout_s=timeout_s):
            if event.type != "MODIFIED":
                return event.type != ERROR_EVENT
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
            if not missing_replicas_text(workload, known.values()) or stuck_container(staying):
                return True
        return False

    def _counts(self, pod: Pod) -> bool:
        controller = pod.metadata.controller
        return controller is not None and controller.uid == self._owner and not pod.terminal
