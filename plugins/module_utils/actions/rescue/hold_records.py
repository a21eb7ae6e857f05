# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads and writes the records that prove holds."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Collection, Mapping

from ...kube.api import KubeApi
from ...kube.errors import ConflictError, KubeError, lacks_rights, may_pass
from ...memory.hold_records import MOST_RECORDS, HoldRecord, read_records, record_changes
from .hold_write import NodeTakenError
from .record_store import CONFLICT_RETRIES, NAME, NAMESPACE, RecordStore

READ_EVERY_S = 5.0


class NotRecordedError(KubeError):
    """The record of a hold cannot be written, so that no node can be held."""


class HoldRecords:
    """The records by node name, as they were last read or written: ``known``."""

    def __init__(self, api: KubeApi) -> None:
        self.known: Mapping[str, HoldRecord] = {}
        self._store = RecordStore(api)
        self._read_at_s: t.Optional[float] = None
        self._led = False

    def refresh(self, *, leading: bool) -> None:
        """Read the records again where that is due; a new leader always reads them. Raises KubeError."""
        now_at_s = time.monotonic()
        if self._read_at_s is None or (leading and not self._led) or now_at_s - self._read_at_s >= READ_EVERY_S:
            self.read()
        self._led = leading

    def read(self) -> None:
        """Read the records now. Raises KubeError."""
        kept = self._store.get()
        self.known = read_records(kept.data if kept is not None else None)
        self._read_at_s = time.monotonic()

    def put(self, record: HoldRecord) -> None:
        """Write the record of a node. Raises NodeTakenError where there is one for another hold, NotRecordedError and KubeError."""

        def change(data: Mapping[str, str]) -> dict[str, t.Optional[str]]:
            records = read_records(data)
            found = records.get(record.node)
            if found is not None and found.node_uid == record.node_uid and found.hold.uid != record.hold.uid:
                raise NodeTakenError(f"node {record.node} is held for pod {found.hold.namespace}/{found.hold.pod}")
            if found is None and len(records) >= MOST_RECORDS:
                text = f"{_MAP} has {len(records)} records of holds, and no more are written: release them (state: released)"
                raise NotRecordedError(text)
            return record_changes(data, put=record)

        try:
            self._update(change)
        except (NodeTakenError, NotRecordedError, ConflictError):
            raise
        except KubeError as error:
            if lacks_rights(error) or may_pass(error):
                raise
            text = f"the hold of node {record.node} cannot be recorded in {_MAP}, so that nothing is evicted: {error}"
            raise NotRecordedError(f"{text}. Delete that ConfigMap: it is created again.") from error

    def drop(self, records: Collection[HoldRecord]) -> None:
        """Remove exactly these records. Raises KubeError."""
        if records:
            self._update(lambda data: record_changes(data, drop=records))

    def _update(self, change: t.Callable[[Mapping[str, str]], dict[str, t.Optional[str]]]) -> None:
        for left in reversed(range(CONFLICT_RETRIES)):
            kept = self._store.get()
            data = (kept.data if kept is not None else None) or {}
            changes = change(data)
            try:
                self._store.write(kept, changes)
            except ConflictError:
                if not left:
                    raise
                continue
            self.known = read_records({**{key: text for key, text in data.items() if key not in changes}, **_texts(changes)})
            return


_MAP = f"ConfigMap {NAMESPACE}/{NAME}"


def _texts(changes: Mapping[str, t.Optional[str]]) -> dict[str, str]:
    return {key: text for key, text in changes.items() if text is not None}
