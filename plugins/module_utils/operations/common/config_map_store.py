# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ConfigMap with the attempts of rescues. The first write creates it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, InvalidError, NotFoundError
from ...kube.client.resources import CONFIG_MAPS
from ...model.api.coordination import ConfigMap
from ...model.backoff import Backoff
from .guarded_patch import write_guarded

NAMESPACE, NAME = "kube-system", "kube-scheduling-rescue"
MAX_CONFIG_MAP_TRIES = 8
PROBE = "probe"
"""A key that only dry runs write."""
BACKOFF = Backoff(0.1, 1.0, jitter=1.0)
"""The random length of the pauses keeps several writers from further conflicts, also on a slow server."""

Changes = Mapping[str, t.Optional[str]]
"""New texts by key; None removes a key."""


class ConfigMapStore:
    """Reads the ConfigMap ``namespace``/``name`` and changes some of its keys, guarded by the resource version."""

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self._api = api
        self._name = name
        self._namespace = namespace

    def get(self) -> t.Optional[ConfigMap]:
        """Return the ConfigMap. None if it does not exist. Raise ForbiddenError, UnreachableError, ApiError."""
        try:
            found: ConfigMap = self._api.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError:
            return None
        return found

    def read(self) -> dict[str, str]:
        """Return the texts by key. Raise ForbiddenError, UnreachableError, ApiError."""
        return _texts(self.get())

    def update(self, change: t.Callable[[Mapping[str, str]], Changes]) -> dict[str, str]:
        """Write the changes that ``change`` returns for the newest texts, and return the texts after the write.

        After a conflict, ``change`` is called again with the texts of that moment. A write is not repeated if only its answer was lost.
        Raise ConflictError if other writers keep changing it, InvalidError (the ConfigMap was made immutable), NotFoundError (no such
        namespace), ForbiddenError, UnreachableError, ApiError, and any error of ``change``.
        """
        changes: Changes = {}
        after: dict[str, str] = {}

        def write(kept: t.Optional[ConfigMap]) -> None:
            nonlocal changes, after
            data = _texts(kept)
            changes = change(data)
            self._write(kept, changes)
            after = {key: text for key, text in {**data, **changes}.items() if text is not None}

        def is_written(kept: t.Optional[ConfigMap]) -> bool:
            nonlocal after
            after = _texts(kept)
            return bool(changes) and all(after.get(key) == text for key, text in changes.items())

        write_guarded(self.get, write, is_written, attempts=MAX_CONFIG_MAP_TRIES, backoff=BACKOFF)
        return after

    def _write(self, kept: t.Optional[ConfigMap], changes: Changes) -> None:
        """Write the changes to the ConfigMap as it was read. Raise ConflictError if it was changed or deleted since."""
        if not changes:
            return
        if kept is None:
            self._create(changes)
        else:
            self._patch(kept, changes)

    def ensure_writable(self) -> None:
        """Verify that this program can read and write the ConfigMap.

        It is created if it does not exist, and otherwise written by a dry run. Problems of the object itself are reported by the write that
        needs it. Raise NotFoundError (no such namespace), ForbiddenError, UnreachableError, ApiError.
        """
        kept = self.get()
        try:
            if kept is None:
                self._create({})
            else:
                self._patch(kept, {PROBE: ""}, dry_run=True)
        except (ConflictError, InvalidError):
            return  # another program was faster, or the ConfigMap is immutable or full

    def _create(self, changes: Changes) -> None:
        metadata = {"namespace": self._namespace, "name": self._name}
        self._api.create(CONFIG_MAPS, self._namespace, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": changes})

    def _patch(self, kept: ConfigMap, changes: Changes, *, dry_run: bool = False) -> None:
        patch = {"metadata": {"resourceVersion": kept.metadata.resource_version}, "data": changes}
        try:
            self._api.merge_patch(CONFIG_MAPS, self._namespace, self._name, patch, dry_run=dry_run)
        except NotFoundError as error:
            raise ConflictError(f"ConfigMap {self._namespace}/{self._name} was deleted meanwhile: {error}", status=409) from error


def _texts(kept: t.Optional[ConfigMap]) -> dict[str, str]:
    return dict((kept.data if kept is not None else None) or {})
