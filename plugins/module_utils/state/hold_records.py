# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The records that prove holds: which node is held, for which pod, by which taint.

They are small JSON texts in the ConfigMap of the rescues, one for each node. A record is written before its taint and removed after it, so
that every taint has a record. A kubelet may annotate its own Node, and it can write neither taints nor ConfigMaps of kube-system: a mark
alone proves nothing.
"""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Collection, Mapping

from ..model.objects import Node
from ..model.timestamps import parse_time
from ..model.wire import Struct, WireError, decode_json, encode_json
from .hold import Hold, is_genuine

PREFIX = "hold."
LONGEST_KEY = 253
"""Of a ConfigMap."""
MOST_RECORDS = 500
MOST_BYTES = 512 * 1024
"""Of all records with their keys. A ConfigMap holds 1 MiB; a record has about 500 bytes, and three times as much with the longest names."""


class HoldRecord(Struct, frozen=True):
    """One held node. ``node_uid``: a node that was made again under the same name has no hold."""

    node: str
    node_uid: str
    hold: Hold

    def to_text(self) -> str:
        """The text that is stored."""
        return encode_json(self).decode()

    def is_about(self, node: Node) -> bool:
        """The record is about this node, and not about an earlier one of the same name."""
        return self.node == node.name and self.node_uid == node.metadata.uid


def record_key(node_name: str) -> str:
    """The key of a node's record in the ConfigMap."""
    key = f"{PREFIX}{node_name}"
    return key if len(key) <= LONGEST_KEY else f"{PREFIX}{hashlib.sha256(node_name.encode()).hexdigest()}"


def read_records(data: Mapping[str, str] | None) -> dict[str, HoldRecord]:
    """The records by node name. A text that cannot be read, or whose value is not the hash of its pod, counts as absent."""
    found = (_read(key, text) for key, text in (data or {}).items() if key.startswith(PREFIX))
    return {record.node: record for record in found if record is not None}


def size_of(key: str, text: str) -> int:
    """The bytes that the API server counts for an entry of a ConfigMap."""
    return len(key.encode(errors="replace")) + len(text.encode(errors="replace"))


def has_space_for(data: Mapping[str, str] | None, record: HoldRecord) -> bool:
    """One more record is within ``MOST_RECORDS`` and ``MOST_BYTES``."""
    others = [other for other in read_records(data).values() if other.node != record.node]
    size = sum(size_of(record_key(other.node), other.to_text()) for other in (*others, record))
    return len(others) < MOST_RECORDS and size <= MOST_BYTES


def record_changes(
    data: Mapping[str, str] | None, *, put: t.Optional[HoldRecord] = None, drop: Collection[HoldRecord] = ()
) -> dict[str, t.Optional[str]]:
    """The changes of ``data`` that write one record and remove others; None removes a key. Texts that cannot be read are removed, too."""
    data = data or {}
    known = {record_key(name): record for name, record in read_records(data).items()}
    wanted: dict[str, t.Optional[str]] = {key: None for key in data if key.startswith(PREFIX) and key not in known}
    wanted.update({record_key(record.node): None for record in drop if known.get(record_key(record.node)) == record})
    if put is not None:
        wanted[record_key(put.node)] = put.to_text()
    return {key: text for key, text in wanted.items() if data.get(key) != text}


def _read(key: str, text: str) -> t.Optional[HoldRecord]:
    try:
        record = decode_json(HoldRecord, text)
        parse_time(record.hold.deadline)
    except (WireError, ValueError, RecursionError):
        return None
    return record if record_key(record.node) == key and is_genuine(record.hold) else None
