# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominations of pods for nodes, as the scheduler makes them when it preempts. Pods of lower priority must not use the capacity.

Source: kubernetes KEP-5278. The scheduler clears a nomination after each failed attempt to schedule the pod (``schedule_one.go``,
``clearNominatedNode``). If no taint reserves the node, other pods can use the capacity until the pod is nominated again. The renewal
therefore does not wait for any other work of the program.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import (
    ConflictError,
    KubeError,
    NotFoundError,
    PatchTestError,
    is_permission_error,
    is_transient,
)
from ...kube.client.resources import POD_STATUS
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...rescue.options import NONE
from ..common.leader_lease import LeaderLease
from .environment import RescueEnvironment
from .reconcile_view import ReconcileView
from .task import FAILED, RescueTask

WAIT_S = 1.0
JOIN_S = 2.0
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


class _Kept(t.NamedTuple):
    """A nomination to renew. ``version`` is the resource version of the pod that was last nominated."""

    node: str
    version: str


class Nominator:
    """The nominations of nodes that no taint reserves. All methods may be called from any thread."""

    def __init__(self, api: KubeApi, cache: ClusterInformer, lease: LeaderLease) -> None:
        self._api, self._cache, self._lease = api, cache, lease
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._any = threading.Event()
        self._stopping = False

    def nominate(self, pod: Pod, node_name: str) -> bool:
        """Nominate the pod as given, and renew the nomination until ``drop``.

        Return False if that was not possible. Raise KubeError. Each version of the pod is nominated once, and the watch shows the result.
        """
        with self._lock:
            kept = self._kept.get(pod.metadata.uid)
            if kept is not None and kept == _Kept(node_name, pod.metadata.resource_version):
                return True
            return self._nominate(pod, node_name)

    def drop(self, uid: str) -> None:
        """Stop the renewal for the pod. This waits for a nomination that is being written, so that the caller can remove it."""
        with self._lock:
            self._kept.pop(uid, None)

    def drop_all(self) -> None:
        """Stop the renewal for all pods."""
        with self._lock:
            self._kept.clear()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the nominations in a thread while the block runs."""
        self._stopping = False
        thread = threading.Thread(target=self._run, name="nominations", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping = True
            self._any.set()
            thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._stopping:
            self._any.clear()  # before the check of ``_kept``, so that a later nomination is noticed
            if not self._kept:
                self._any.wait(WAIT_S)
                continue
            version = self._cache.version
            self.renew()
            try:
                self._cache.wait_for_change(version, WAIT_S)
            except KubeError:  # the caller of the rescue controller reports it
                time.sleep(WAIT_S)

    def renew(self) -> None:
        """Nominate each pod again whose nomination was cleared according to the watch."""
        for uid in list(self._kept):
            pod = self._cache.pod(uid)
            if pod is None or pod.spec.node_name or pod.status.nominated_node_name or pod.terminating:
                continue
            with self._lock:
                kept = self._kept.get(uid)
                if kept is None or kept.version == pod.metadata.resource_version or not self._lease.held:
                    continue
                try:
                    self._nominate(pod, kept.node)
                except KubeError:
                    self._kept.pop(uid, None)  # the next step of its rescue tries again and reports the error

    def _nominate(self, pod: Pod, node_name: str) -> bool:
        nominated = nominate(self._api, pod, node_name)
        if nominated:
            self._kept[pod.metadata.uid] = _Kept(node_name, pod.metadata.resource_version)
            self._any.set()
        return nominated


class TaskNominations:
    """Nominates the pods of tasks. The steps raise LeaseLostError before a write if another program may be active."""

    def __init__(self, environment: RescueEnvironment, nominator: Nominator) -> None:
        self._api, self._options, self._lease = environment.api, environment.options, environment.lease
        self._observer, self._nominator = environment.observer, nominator
        self._no_nomination_until_s = 0.0

    def may_nominate(self, task: RescueTask, node_name: str, view: ReconcileView) -> bool:
        """Check by a dry run that the pod can be nominated, before any write. Return False if it cannot now."""
        try:
            if task.pod.status.nominated_node_name or nominate(self._api, task.pod, node_name, dry_run=True):
                return True
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            if not isinstance(error, ConflictError):
                task.finish(FAILED, Reason("error", str(error)))
                return False
        task.replan_at(view.now_at_s + RETRY_S)  # another client writes to the pod; the watch shows the result
        return False

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
            # their nominations need no quick renewal by the Nominator.
            alone = not tainted and self._options.hold != NONE
            if self._nominator.nominate(pod, task.node) if alone else nominate(self._api, pod, task.node):
                task.note_nominated(version)
                return True
        except KubeError as error:
            if tainted and is_permission_error(error):
                self._continue_without_nomination(error, view)
                return True
            self._observer.on_error(f"{task.name}: it is not nominated for node {task.node}: {error}")
        if tainted:
            return True  # the taint reserves the node; the next step tries again
        task.retry_at(view.now_at_s + RETRY_S)
        return False

    def _continue_without_nomination(self, error: KubeError, view: ReconcileView) -> None:
        """Report once that the role for nominations is missing, and try again later. The taint reserves the node without a nomination."""
        if not self._no_nomination_until_s:
            text = "pods are not nominated in addition to the taint. Pods that tolerate it can take the capacity that becomes free in parts"
            self._observer.on_error(f"{text}: {error}")
        self._no_nomination_until_s = view.now_at_s + NO_NOMINATION_FOR_S

    def withdraw(self, task: RescueTask) -> None:
        """Withdraw the nomination for a node that another party's taint reserves. It belongs to no hold."""
        if not task.end_nomination() or not task.node or task.pod_gone or task.pod.spec.node_name:
            return
        self._lease.ensure_held()
        try:
            withdraw(self._api, task.pod.metadata, task.node)
        except KubeError as error:
            # The scheduler clears the nomination after its next try.
            self._observer.on_error(f"pod {task.name} is still nominated for node {task.node}: {error}")
