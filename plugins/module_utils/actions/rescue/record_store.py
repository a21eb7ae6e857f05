# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ConfigMap in which rescues keep attempts and the records of holds; it is created by the first write."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...kube.api import KubeApi
from ...kube.errors import ConflictError, InvalidError, NotFoundError
from ...kube.resources import CONFIG_MAPS
from ...model.records import ConfigMap

NAMESPACE, NAME = "kube-system", "kube-scheduling-rescue"
CONFLICT_RETRIES = 8
PROBE = "probe"
"""A key that is only written by dry runs."""


class RecordStore:
    """Reads the ConfigMap ``namespace``/``name`` and writes some of its keys, guarded by the resource version."""

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self._api = api
        self._name = name
        self._namespace = namespace

    def get(self) -> t.Optional[ConfigMap]:
        """The ConfigMap, None where there is none. Raises ForbiddenError, UnreachableError, ApiError."""
        try:
            found: ConfigMap = self._api.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFoundError:
            return None
        return found

    def write(self, kept: t.Optional[ConfigMap], data: Mapping[str, t.Optional[str]]) -> None:
        """Write the keys of ``data`` (None removes one) to the ConfigMap as it was read; nothing is written where there is no key.

        Raises ConflictError where it changed meanwhile, InvalidError (immutable, or full), NotFoundError (no such namespace),
        ForbiddenError, UnreachableError, ApiError.
        """
        if not data:
            return
        if kept is None:
            self._create(data)
        else:
            patch = {"metadata": {"resourceVersion": kept.metadata.resource_version}, "data": data}
            self._api.merge_patch(CONFIG_MAPS, self._namespace, self._name, patch)

    def check(self) -> None:
        """Show that this program can read and write the ConfigMap: create it where there is none, otherwise write to it by a dry run.

        What is wrong with the object itself is reported by the write that needs it. Raises NotFoundError (no such namespace),
        ForbiddenError, UnreachableError, ApiError.
        """
        kept = self.get()
        try:
            if kept is None:
                self._create({})
            else:
                patch = {"metadata": {"resourceVersion": kept.metadata.resource_version}, "data": {PROBE: ""}}
                self._api.merge_patch(CONFIG_MAPS, self._namespace, self._name, patch, dry_run=True)
        except (ConflictError, InvalidError):
            return  # another program was faster; or it is immutable or full

    def _create(self, data: Mapping[str, t.Optional[str]]) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": self._namespace, "name": self._name}, "data": data}
        self._api.create(CONFIG_MAPS, self._namespace, body)
