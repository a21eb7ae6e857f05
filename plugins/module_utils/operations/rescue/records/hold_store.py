# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads and writes the records that prove holds."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Collection, Mapping

from ....kube.client.api import KubeApi
from ....kube.client.errors import ConflictError, KubeError, is_permission_error, is_transient
from ....state.hold import (
    HoldRecord,
    has_space_for,
    hold_record_patch,
    read_hold_records,
)
from ...common.config_map_store import NAME, NAMESPACE, Changes, ConfigMapStore

READ_EVERY_S = 5.0


class HoldNotRecordedError(KubeError):
    """The record of a hold cannot be written, so no node can be held."""


class TooManyHoldsError(KubeError):
    """There is no space for another record until a hold is released."""


class HoldStore:
    """Stores the hold records. ``records`` has them by node name, as last read or written."""

    def __init__(self, api: KubeApi) -> None:
        self.records: Mapping[str, HoldRecord] = {}
        self._store = ConfigMapStore(api)
        self._read_at_s: t.Optional[float] = None
        self._led = False

    def read_if_due(self, *, leading: bool) -> None:
        """Read the records if that is due. A new leader always reads them. Raise KubeError."""
        now_at_s = time.monotonic()
        if self._read_at_s is None or (leading and not self._led) or now_at_s - self._read_at_s >= READ_EVERY_S:
            self.read()
        self._led = leading

    def read(self) -> None:
        """Read the records now. Raise KubeError."""
        self.records = read_hold_records(self._store.read())
        self._read_at_s = time.monotonic()

    def put(self, record: HoldRecord) -> None:
        """Write the record of a node.

        Raise NodeTakenError if the node has a record of another hold, TooManyHoldsError, HoldNotRecordedError and KubeError.
        """

        def change(data: Mapping[str, str]) -> Changes:
            records = read_hold_records(data)
            found = records.get(record.node)
            if found is not None and found.node_uid == record.node_uid and found.hold.uid != record.hold.uid:
                raise NodeTakenError(f"node {record.node} is held for pod {found.hold.namespace}/{found.hold.pod}")
            if found is None and not has_space_for(data, record):
                text = f"{_MAP} has {len(records)} records of holds and no space for more: a rescue waits until one is released"
                raise TooManyHoldsError(text)
            return hold_record_patch(data, put=record)

        try:
            self._update(change)
        except (NodeTakenError, TooManyHoldsError, ConflictError):
            raise
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            text = f"the hold of node {record.node} cannot be recorded in {_MAP}, so that nothing is evicted: {error}"
            raise HoldNotRecordedError(f"{text}. Delete that ConfigMap: it is created again.") from error

    def remove(self, records: Collection[HoldRecord]) -> None:
        """Remove exactly these records. Raise KubeError."""
        if records:
            self._update(lambda data: hold_record_patch(data, drop=records))

    def _update(self, change: t.Callable[[Mapping[str, str]], Changes]) -> None:
        self.records = read_hold_records(self._store.update(change))


_MAP = f"ConfigMap {NAMESPACE}/{NAME}"


class NodeTakenError(KubeError):
    """The node is held for another pod, or is gone."""
