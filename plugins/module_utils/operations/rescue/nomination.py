# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominations of pods for nodes, as the scheduler makes them when it preempts. Pods of lower priority must not use the capacity.

A pod is nominated also if a taint holds its node. After several failed attempts the scheduler waits up to ten seconds before it tries the
pod again. Without a nomination, the replacement of the victim got the capacity in 4 of 4 runs. With one, the pod got it in 8 of 8 runs.

Source: kubernetes KEP-5278.
"""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, NotFoundError, PatchTestError, is_permission_error, is_transient
from ...kube.client.resources import POD_STATUS
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...rescue.options import NONE
from .environment import ReconcileView, RescueEnvironment
from .task import Event, RescueTask

RETRY_S = 0.5
NO_NOMINATION_FOR_S = 600.0
"""Seconds without further nominations in addition to a taint, after a permission error. The role for nominations is missing then."""

_PATH = "/status/nominatedNodeName"


def nominate(api: KubeApi, pod: Pod, node_name: str, *, dry_run: bool = False) -> bool:
    """Nominate exactly this pod. Return False if it is gone, bound, or already nominated for any node. Raise KubeError."""
    operation = {"op": "add", "path": _PATH, "value": node_name}
    return _patch(api, pod.metadata, None, operation, dry_run=dry_run)


def withdraw(api: KubeApi, pod: ObjectMeta, node_name: str) -> None:
    """Remove exactly this nomination, if it exists and the pod is not bound. Raise KubeError."""
    _patch(api, pod, node_name, {"op": "remove", "path": _PATH})


def _patch(api: KubeApi, pod: ObjectMeta, nominated: t.Optional[str], operation: dict[str, t.Any], *, dry_run: bool = False) -> bool:
    expected = {"/metadata/uid": pod.uid, "/spec/nodeName": None, _PATH: nominated}
    tests = [{"op": "test", "path": path, "value": value} for path, value in expected.items()]
    try:
        api.json_patch(POD_STATUS, pod.namespace, pod.name, [*tests, operation], dry_run=dry_run)
    except (NotFoundError, PatchTestError):
        return False
    return True


class TaskNominations:
    """Nominates the pods of tasks. The steps raise LeaseLostError before a write if another program may be active."""

    def __init__(self, environment: RescueEnvironment, nominate_alone: t.Callable[[Pod, str], bool]) -> None:
        self._api, self._options, self._lease = environment.api, environment.options, environment.lease
        self._observer, self._nominate_alone = environment.observer, nominate_alone
        self._no_nomination_until_s = 0.0

    def violation(self, task: RescueTask, node_name: str, view: ReconcileView) -> t.Optional[Event]:
        """Check by a dry run that the pod can be nominated, before any write. Return the event that follows if it cannot now."""
        try:
            if task.pod.status.nominated_node_name or nominate(self._api, task.pod, node_name, dry_run=True):
                return None
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            if not isinstance(error, ConflictError):
                return Event("failed", Reason("error", str(error)))
        task.plan_at_s = view.now_at_s + RETRY_S  # another client writes to the pod; the watch shows the result
        return Event("outdated")

    def nominate(self, task: RescueTask, view: ReconcileView) -> bool:
        """Nominate the pod for the held node, and again after the scheduler has cleared the nomination.

        Return False if no taint reserves the node and the pod could not be nominated yet. If the task has no hold, another party's taint
        reserves the node. The scheduler may have nominated the pod for another node, where its victims are terminating. That nomination is
        kept, because the scheduler would otherwise preempt again.
        """
        pod = task.pod
        tainted = task.hold is None or not task.hold.nominates
        if pod.status.nominated_node_name:
            return True
        if tainted and view.now_at_s < self._no_nomination_until_s:
            return True
        version = pod.metadata.resource_version
        if version == task.nominated_version:
            return True  # the watch does not show it yet
        self._lease.ensure_held()
        try:
            # With hold none, several pods may be nominated at the same time. A failed attempt at one makes the scheduler try the others, so
            # their nominations need no quick renewal.
            alone = not tainted and self._options.hold != NONE
            if self._nominate_alone(pod, task.node) if alone else nominate(self._api, pod, task.node):
                task.nominated_version = version
                return True
        except KubeError as error:
            if tainted and is_permission_error(error):
                self._continue_without_nomination(error, view)
                return True
            self._observer.on_error(f"{task.name}: it is not nominated for node {task.node}: {error}")
        if tainted:
            return True  # the taint reserves the node; the next step tries again
        task.retry_at_s = view.now_at_s + RETRY_S
        return False

    def _continue_without_nomination(self, error: KubeError, view: ReconcileView) -> None:
        """Report once that the role for nominations is missing, and try again later. The taint reserves the node without a nomination."""
        if not self._no_nomination_until_s:
            text = "pods are not nominated in addition to the taint. Pods that tolerate it can take the capacity that becomes free in parts"
            self._observer.on_error(f"{text}: {error}")
        self._no_nomination_until_s = view.now_at_s + NO_NOMINATION_FOR_S

    def withdraw(self, task: RescueTask) -> None:
        """Withdraw the nomination for a node that another party's taint reserves. It belongs to no hold."""
        nominated, task.nominated_version = task.nominated_version, ""
        if not nominated or not task.node or task.pod_gone or task.pod.spec.node_name:
            return
        self._lease.ensure_held()
        try:
            withdraw(self._api, task.pod.metadata, task.node)
        except KubeError as error:
            # The scheduler clears the nomination after its next try.
            self._observer.on_error(f"pod {task.name} is still nominated for node {task.node}: {error}")
