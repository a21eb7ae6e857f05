# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Waits for what a workload's status says by a watch, and by looking again every few seconds only where watching is forbidden."""

from __future__ import annotations

import time
import typing as t

from ..kube.api import KubeApi
from ..kube.errors import ApiError, ExpiredError, ForbiddenError, UnreachableError
from ..kube.resources import WORKLOADS, Resource
from ..model.objects import Workload
from ..spread.rollout_status import WAITING, Progress

ProgressOf = t.Callable[[Workload], Progress]

_WATCH_S = 60.0


def wait_for_workload(
    api: KubeApi,
    workload: Workload,
    progress_of: ProgressOf,
    *,
    timeout_s: float,
    poll_s: float,
    clock: t.Callable[[], float] = time.monotonic,
) -> tuple[Workload, Progress]:
    """Wait until ``progress_of`` says done or failed, or until ``timeout_s`` has passed (then the state is ``waiting``).

    ``workload`` as it was last read or written: the wait starts from there. A broken or expired watch starts from a fresh read.
    Raises NotFoundError if the workload is deleted, and UnreachableError if the API server stays away.
    """
    deadline = clock() + timeout_s
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    may_watch = True
    while True:
        progress = progress_of(workload)
        left_s = deadline - clock()
        if progress.state != WAITING or left_s <= 0:
            return workload, progress
        if may_watch:
            may_watch = _watch_once(api, resource, workload, progress_of, min(left_s, _WATCH_S))
        else:
            time.sleep(min(poll_s, left_s))
        workload = api.get(resource, metadata.namespace, metadata.name)


def _watch_once(api: KubeApi, resource: Resource, workload: Workload, progress_of: ProgressOf, timeout_s: float) -> bool:
    """Return when the progress is made or the watch has ended; False where watching is forbidden."""
    metadata = workload.metadata
    events = api.watch(resource, metadata.namespace, metadata.name, resource_version=metadata.resource_version, timeout_s=timeout_s)

    def see() -> None:
        for event in events:
            # Deleted, or an error such as an expired version: the next read tells.
            if event.type != "MODIFIED" or progress_of(resource.decode(bytes(event.object))).state != WAITING:
                return

    return watch_if_allowed(see)


def watch_if_allowed(see: t.Callable[[], None]) -> bool:
    """Watch with ``see``; False where that is forbidden. A watch that breaks off or expires has just ended."""
    try:
        see()
    except ForbiddenError:
        return False
    except (ExpiredError, UnreachableError):
        return True
    except ApiError as error:
        if error.status < 500 and error.status != 429:
            raise
        time.sleep(error.retry_after_s or 1.0)
    return True
