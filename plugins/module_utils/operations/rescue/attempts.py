# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Attempts at rescues in a ConfigMap: writing to the owners themselves would need rights close to cluster-admin."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.client.api import KubeApi
from ...state.rescue_attempts import Attempt, configmap_patch, read_attempts
from .record_store import NAME, NAMESPACE, Changes, RecordStore

Change = t.Callable[[t.Optional[Attempt]], t.Optional[Attempt]]


class RescueAttempts:
    """What ``state/rescue_attempts.py`` keeps, in the ConfigMap ``namespace``/``name``, which is made on first use.

    Only tests give another namespace or name: all programs of a cluster share one ConfigMap.
    ``dropped``: the names of entries that were cut or removed for lack of space. The reader clears it.
    """

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self.dropped: list[str] = []
        self._api = api
        self._store = RecordStore(api, name=name, namespace=namespace)

    def read(self) -> dict[str, Attempt]:
        """The attempts by key; what somebody has written there by hand and cannot be read is left out.

        Raises ForbiddenError, UnreachableError, ApiError.
        """
        return read_attempts(self._store.read(), now_s=self._api.now_s())

    def update(self, key: str, change: Change) -> t.Optional[Attempt]:
        """Write what ``change`` makes of the newest entry of the key, and return the entry after it. None stands for no entry.

        What is of no use any more is dropped on the way. Raises as ``RecordStore.update``.
        """
        dropped: list[str] = []

        def change_all(data: Mapping[str, str]) -> Changes:
            now_s = self._api.now_s()
            written = configmap_patch(data, key, change(read_attempts(data, now_s=now_s).get(key)), now_s=now_s)
            dropped[:] = written.dropped
            return written.changes

        after = self._store.update(change_all)
        self.dropped += dropped
        return read_attempts(after, now_s=self._api.now_s()).get(key)
