# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominates pods again as soon as the watch shows that the scheduler has cleared the nomination.

The scheduler clears it after each failed attempt (kubernetes ``schedule_one.go``, ``clearNominatedNode``). Where no taint keeps the node,
other pods can take the capacity until the pod is nominated again. So the renewal waits for nothing else that the program does.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError
from ...model.api.pod import Pod
from .lease import RescueLease
from .nomination import nominate

WAIT_S = 1.0
JOIN_S = 2.0


class _Kept(t.NamedTuple):
    """``version``: the resource version of the pod that was last nominated."""

    node: str
    version: str


class Nominations:
    """The nominations that alone keep a node. All methods may be called from any thread."""

    def __init__(self, api: KubeApi, cache: ClusterInformer, lease: RescueLease) -> None:
        self._api, self._cache, self._lease = api, cache, lease
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._any = threading.Event()
        self._stopping = False

    def nominate(self, pod: Pod, node_name: str) -> bool:
        """Nominate the pod as it is given, and from then on again until ``drop``; false where it was not possible. Raises KubeError.

        A version of the pod is nominated once: what comes of it, the watch shows.
        """
        with self._lock:
            kept = self._kept.get(pod.metadata.uid)
            if kept is not None and kept == _Kept(node_name, pod.metadata.resource_version):
                return True
            return self._nominate(pod, node_name)

    def drop(self, uid: str) -> None:
        """Do not nominate the pod again. A nomination that is being written is waited for, so that the caller can remove it."""
        with self._lock:
            self._kept.pop(uid, None)

    def drop_all(self) -> None:
        """As ``drop``, for all pods."""
        with self._lock:
            self._kept.clear()

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the nominations in a thread of its own for as long as the block lasts."""
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
            self._any.clear()  # before the look, so that a nomination after the look is noticed
            if not self._kept:
                self._any.wait(WAIT_S)
                continue
            version = self._cache.version
            self.renew()
            try:
                self._cache.wait_for_change(version, WAIT_S)
            except KubeError:  # whoever drives the rescues reports it
                time.sleep(WAIT_S)

    def renew(self) -> None:
        """Nominate each pod again whose nomination the watch shows as cleared."""
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
                    self._kept.pop(uid, None)  # the next step of its rescue tries again, and reports what is wrong

    def _nominate(self, pod: Pod, node_name: str) -> bool:
        nominated = nominate(self._api, pod, node_name)
        if nominated:
            self._kept[pod.metadata.uid] = _Kept(node_name, pod.metadata.resource_version)
            self._any.set()
        return nominated
