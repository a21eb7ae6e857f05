# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Attempts at rescues in a ConfigMap: writing to the owners themselves would need rights close to cluster-admin."""

from __future__ import annotations

import typing as t

from ...kube.api import KubeApi
from ...kube.errors import ConflictError
from ...memory.attempts import Attempt, changes, read_attempts
from .record_store import CONFLICT_RETRIES, NAME, NAMESPACE, RecordStore

Change = t.Callable[[t.Optional[Attempt]], t.Optional[Attempt]]


class RescueAttempts:
    """What ``memory/attempts.py`` keeps, in the ConfigMap ``namespace``/``name``, which is made on first use."""

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self._api = api
        self._store = RecordStore(api, name=name, namespace=namespace)

    def read(self) -> dict[str, Attempt]:
        """The attempts by owner uid; what somebody has written there by hand and cannot be read is left out.

        Raises ForbiddenError, UnreachableError, ApiError.
        """
        kept = self._store.get()
        return read_attempts(kept.data if kept is not None else None, now_s=self._api.now_s())

    def update(self, owner_uid: str, change: Change) -> t.Optional[Attempt]:
        """Write what ``change`` makes of the owner's newest entry (None: there is none, or none shall be) and return that.

        It is called again with what is there by then after a conflict. What is of no use any more is dropped on the way.
        Raises ConflictError where others keep writing, InvalidError (somebody made the ConfigMap immutable), NotFoundError (no such
        namespace), ForbiddenError, UnreachableError, ApiError.
        """
        unanswered: t.Optional[str] = None
        for left in reversed(range(CONFLICT_RETRIES)):
            kept = self._store.get()
            data = (kept.data if kept is not None else None) or {}
            now_s = self._api.now_s()
            before = read_attempts(data, now_s=now_s).get(owner_uid)
            if before is not None and data.get(owner_uid) == unanswered:
                return before  # it had got through, only the answer was lost
            wanted = change(before)
            try:
                self._store.write(kept, changes(data, owner_uid, wanted, now_s=now_s))
                return wanted
            except ConflictError as error:
                unanswered = wanted.to_text() if error.repeated and wanted is not None else None
                if not left:
                    raise
        raise AssertionError("unreachable")
