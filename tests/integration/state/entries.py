# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of attempts in a ConfigMap, as a rescuer reads and writes them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.config_map_store import (
    NAME,
    NAMESPACE,
    ConfigMapStore,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.attempts import AttemptRecorder
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import AttemptRecord


class Entries:
    """The entries of one ConfigMap. ``errors``: the errors that a rescuer would report."""

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self.errors: list[str] = []
        environment: Any = SimpleNamespace(
            api=api,
            cache=SimpleNamespace(retain_deleted=lambda _uids: None),
            lease=None,
            observer=SimpleNamespace(on_error=self.errors.append),
            writer="test",
            dry_run=False,
            events=None,
        )
        self._recorder = AttemptRecorder(environment, ConfigMapStore(api, name=name, namespace=namespace))

    def read(self) -> dict[str, AttemptRecord]:
        """The entries by key."""
        self._recorder._read()
        return self._recorder._entries

    def update(self, key: str, change: Callable[[AttemptRecord | None], AttemptRecord | None]) -> AttemptRecord | None:
        """Write the entry that ``change`` returns, and return it as written."""
        self._recorder._update(key, change)
        return self._recorder._entries.get(key)
