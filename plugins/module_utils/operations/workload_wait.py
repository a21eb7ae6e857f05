# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Waits for what a workload's status says by a watch, and by looking again every few seconds only where watching is forbidden."""

from __future__ import annotations

import time
import typing as t

from ..kube.client.api import KubeApi
from ..kube.client.errors import ApiError, ExpiredError, ForbiddenError, UnreachableError
from ..kube.client.resources import WORKLOADS, Resource
from ..model.api.workload import Workload
from ..spread.rollout_status import FAILED, WAITING, Progress

ERROR = "ERROR"
"""The type of a watch's last event, where the API server ends it with a Status."""

ProgressOf = t.Callable[[Workload], Progress]

_WATCH_S = 60.0
CHECK_EVERY_S = 5.0
"""Seconds between two checks whether the rollout hangs: its workload does not change then, so that no watch of it tells."""
WATCH_AT_MOST_EVERY_S = 1.0
"""A watch may end as soon as it has begun, again and again: a version that stays too old for an API server that was just started, or a
proxy that closes watches."""


def wait_for_workload(
    api: KubeApi,
    workload: Workload,
    progress_of: ProgressOf,
    *,
    timeout_s: float,
    poll_s: float,
    hanging: t.Optional[t.Callable[[Workload], str]] = None,
    clock: t.Callable[[], float] = time.monotonic,
) -> tuple[Workload, Progress]:
    """Wait until ``progress_of`` says done or failed, or until ``timeout_s`` has passed (then the state is ``waiting``).

    ``workload`` as it was last read or written: the wait starts from there. A broken or expired watch starts from a fresh read.
    ``hanging`` says why the wait would be without effect; the state is ``failed`` then, as where another workload has the name by now.
    Raises NotFoundError if the workload is deleted, and UnreachableError if the API server stays away.
    """
    deadline = clock() + timeout_s
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    check_s = clock() + CHECK_EVERY_S if hanging is not None else float("inf")
    may_watch = True
    while True:
        progress = progress_of(workload)
        left_s = deadline - clock()
        if progress.state != WAITING or left_s <= 0:
            return workload, progress
        if hanging is not None and clock() >= check_s:
            cause = hanging(workload)
            if cause:
                return workload, Progress(FAILED, f"{progress.text}: {cause}")
            check_s = clock() + CHECK_EVERY_S
        if may_watch:
            may_watch = _watch_once(api, resource, workload, progress_of, min(left_s, _WATCH_S, max(0.0, check_s - clock())))
        else:
            time.sleep(min(poll_s, left_s))
        workload = api.get(resource, metadata.namespace, metadata.name)
        if workload.metadata.uid != metadata.uid:
            return workload, created_again(workload)


def created_again(workload: Workload) -> Progress:
    """Return the end of a wait for a workload in whose place there is another one with its name."""
    return Progress(FAILED, f"{workload} was deleted, and created again by someone else")


def _watch_once(api: KubeApi, resource: Resource, workload: Workload, progress_of: ProgressOf, timeout_s: float) -> bool:
    """Return when the progress is made or the watch has ended; False where watching is forbidden."""
    metadata = workload.metadata
    events = api.watch(resource, metadata.namespace, metadata.name, resource_version=metadata.resource_version, timeout_s=timeout_s)

    def see() -> bool:
        for event in events:
            if event.type == ERROR:  # such as an expired version: the next read tells
                return False
            if event.type != "MODIFIED" or progress_of(resource.decode(bytes(event.object))).state != WAITING:
                return True
        return False

    return watch_if_allowed(see)


def watch_if_allowed(see: t.Callable[[], bool]) -> bool:
    """Watch with ``see``, which says whether it saw what it waits for; False where watching is forbidden.

    A watch that breaks off or expires has just ended. If nothing was seen, the next one is not due before
    ``WATCH_AT_MOST_EVERY_S``, or before what an overloaded server asks for.
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
