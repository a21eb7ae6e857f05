# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Attempts at rescues in a ConfigMap: writing to the owners themselves would need rights close to cluster-admin."""

from __future__ import annotations

import typing as t

from ...kube.api import KubeApi
from ...kube.errors import ConflictError, NotFoundError
from ...kube.resources import CONFIG_MAPS
from ...memory.attempts import Attempt, changes, read_attempts
from ...model.records import ConfigMap

CONFLICT_RETRIES = 8
Change = t.Callable[[t.Optional[Attempt]], t.Optional[Attempt]]


class RescueAttempts:
    """What ``memory/attempts.py`` keeps, in the ConfigMap ``namespace``/``name``, which is made on first use."""

    def __init__(self, api: KubeApi, *, name: str = "kube-scheduling-rescue", namespace: str = "kube-system") -> None:
        self._api = api
        self._name = name
        self._namespace = namespace

    def read(self) -> dict[str, Attempt]:
        """The attempts by owner uid; what somebody has written there by hand and cannot be read is left out.

        Raises ForbiddenError, UnreachableError, ApiError.
        """
        kept = self._get()
        return read_attempts(kept.data if kept is not None else None, now_s=self._api.now_s())

    def update(self, owner_uid: str, change: Change) -> t.Optional[Attempt]:
        """Write what ``change`` makes of the owner's newest entry (None: there is none, or none shall be) and return that.

        It is called again with what is there by then after a conflict. What is of no use any more is dropped on the way.
        Raises ConflictError where others keep writing, InvalidError (somebody made the ConfigMap immutable), NotFoundError (no such
        namespace), ForbiddenError, UnreachableError, ApiError.
        """
        unanswered: t.Optional[str] = None
        for left in reversed(range(CONFLICT_RETRIES)):
            kept = self._get()
            data = (kept.data if kept is not None else None) or {}
            now_s = self._api.now_s()
            before = read_attempts(data, now_s=now_s).get(owner_uid)
            if before is not None and data.get(owner_uid) == unanswered:
                return before  # it had got through, only the answer was lost
            wanted = change(before)
            try:
                self._write(kept, changes(data, owner_uid, wanted, now_s=now_s))
                return wanted
            except ConflictError as error:
                unanswered = wanted.to_text() if error.repeated and wanted is not None else None
                if not left:
                    raise
        raise AssertionError("unreachable")

    def _get(self) -> t.Optional[ConfigMap]:
        try:
            found: ConfigMap = self._api.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError:
            return None
        return found

    def _write(self, kept: t.Optional[ConfigMap], data: dict[str, t.Optional[str]]) -> None:
        if not data:
            return
        if kept is None:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": self._namespace, "name": self._name}, "data": data}
            self._api.create(CONFIG_MAPS, self._namespace, body)
        else:
            patch = {"metadata": {"resourceVersion": kept.metadata.resource_version}, "data": data}
            self._api.merge_patch(CONFIG_MAPS, self._namespace, self._name, patch)
