# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominations of pods for nodes, as the scheduler makes them in a preemption: pods of lower priority must leave the capacity free.

Source: kubernetes KEP-5278. The scheduler clears a nomination after each failed attempt at the pod (``schedule_one.go``,
``clearNominatedNode``). If no taint reserves the node, other pods can use the capacity until the pod is nominated again. The renewal
therefore waits for no other work of the program.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, NotFoundError, PatchTestError
from ...kube.client.resources import POD_STATUS
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod
from ..common.leader_lease import LeaderLease

WAIT_S = 1.0
JOIN_S = 2.0

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
    """The nominations that alone reserve a node. All methods may be called from any thread."""

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
