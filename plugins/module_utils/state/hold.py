# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Holds: a hold reserves a prepared node for one critical pod, until a deadline.

A hold is a taint on the node, or the pod's nomination for the node. An annotation of the node names the pod and the program that made the
hold. Taint and annotation are written together and removed together, by a JSON patch that tests the values that were read. The resource
version cannot be the guard, because the kubelet's heartbeats change it all the time.

The annotation is for people. A kubelet may annotate its own Node, so an annotation alone proves nothing. The proof is a record: a small
JSON text in the ConfigMap of the rescues, one for each node. Kubelets can write neither taints nor ConfigMaps of kube-system. A record is
written before its taint and removed after it, so that every taint has a record.

``rescue/hold_policy.py`` has the duration of a hold, ``operations/rescue/effects.py`` makes the deadline of it, and
``operations/rescue/holds.py`` releases the node after the deadline.
"""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ..model.api.node import Node, Taint
from ..model.api.pod import Pod
from ..model.codec import DecodeError, Struct, decode_json, encode_json
from ..model.values.timestamps import format_time, parse_time, read_time

HOLD_ANNOTATION = "kube-scheduling.onprem/hold"
NO_SCHEDULE = "NoSchedule"

Json = dict[str, t.Any]
JsonPatch = list[Json]
"""An RFC 6902 JSON patch."""

_ANNOTATIONS = "/metadata/annotations"
MAX_OWNER_LENGTH = 128
"""Characters of the owner's kind and name. Tenants choose these names, and their length is not limited."""
HASH_LENGTH = 16
"""Characters of a taint's value."""
_HOLD_ANNOTATION_PATH = f"{_ANNOTATIONS}/{HOLD_ANNOTATION.replace('/', '~1')}"
_TAINTS = "/spec/taints"


class Hold(Struct, frozen=True):
    """The content of the annotation.

    ``key`` and ``value`` are those of the taint. They are empty if the pod is nominated instead. ``deadline``: RFC 3339, the time after
    which any program may remove the hold. ``writer``: the program that made the hold. ``since``: RFC 3339, the time at which the hold was
    made. It is empty if that is not known.
    """

    key: str
    value: str
    namespace: str
    pod: str
    uid: str
    owner: str
    deadline: str
    writer: str
    since: str = ""

    @property
    def taint(self) -> Taint | None:
        """Return the taint of the hold, or None for a hold by nomination."""
        return Taint(key=self.key, value=self.value, effect=NO_SCHEDULE) if self.key else None

    @property
    def nominates(self) -> bool:
        """Return whether the hold has no taint and consists of the pod's nomination for the node."""
        return not self.key

    @property
    def pod_name(self) -> str:
        """Return namespace and name of the pod."""
        return f"{self.namespace}/{self.pod}"

    @property
    def deadline_s(self) -> float:
        """Return the deadline in seconds since the epoch."""
        return parse_time(self.deadline)

    @property
    def since_s(self) -> float | None:
        """Return the time at which the hold was made, in seconds since the epoch. None if it is not known."""
        return read_time(self.since)

    def has_expired(self, now_s: float) -> bool:
        """Return whether the deadline has passed. ``now_s`` is the time of the API server's clock."""
        return self.deadline_s < now_s


def make_hold(pod: Pod, *, key: str, deadline_s: float, writer: str, since_s: t.Optional[float] = None) -> Hold:
    """Return the hold for a pod until ``deadline_s``. If ``key`` is empty, it is a hold by nomination.

    ``since_s`` is the time at which the hold is made. Both times are seconds since the epoch by the API server's clock.
    """
    metadata = pod.metadata
    controller = metadata.controller
    return Hold(
        key=key,
        value=hold_value(pod) if key else "",
        namespace=metadata.namespace,
        pod=metadata.name,
        uid=metadata.uid,
        owner=f"{controller.kind} {controller.name}"[:MAX_OWNER_LENGTH] if controller is not None else "",
        deadline=format_time(deadline_s),
        writer=writer,
        since=format_time(since_s) if since_s is not None else "",
    )


def hold_taint(pod: Pod, key: str) -> Taint:
    """Return the taint that reserves a node for the pod."""
    return Taint(key=key, value=hold_value(pod), effect=NO_SCHEDULE)


def hold_value(pod: Pod) -> str:
    """Return a label value that is different for each pod. Its length does not depend on the pod's name."""
    metadata = pod.metadata
    return _hash_of(metadata.namespace, metadata.name, metadata.uid)


def is_genuine(hold: Hold) -> bool:
    """Return whether the value is the hash of the pod, or the hold has no taint. No other taint is ever removed."""
    return hold.value == (_hash_of(hold.namespace, hold.pod, hold.uid) if hold.key else "")


def hold_annotation(node: Node) -> str | None:
    """Return the text of the node's hold annotation, also if it cannot be parsed. Return None if there is none."""
    return (node.metadata.annotations or {}).get(HOLD_ANNOTATION)


def is_foreign_taint(taint: Taint, key: str, hold: Hold | None) -> bool:
    """Return whether the taint has the key and the effect of a hold's taint but is not the taint of ``hold``."""
    return taint.key == key and taint.effect == NO_SCHEDULE and (hold is None or taint != hold.taint)


def hold_patch(node: Json, hold: Hold) -> JsonPatch:
    """Return the patch that puts the hold on the node and keeps all its taints. ``node`` is the whole JSON as it was read."""
    annotations = node["metadata"].get("annotations")
    taints = node["spec"].get("taints")
    put: Json = {"op": "add", "path": _HOLD_ANNOTATION_PATH, "value": encode_json(hold).decode()}
    if annotations is None:
        changes: JsonPatch = [{"op": "test", "path": _ANNOTATIONS, "value": None}, {"op": "add", "path": _ANNOTATIONS, "value": {}}, put]
    else:
        changes = [{"op": "test", "path": _HOLD_ANNOTATION_PATH, "value": annotations.get(HOLD_ANNOTATION)}, put]
    if hold.taint is None:
        return changes
    return [*_with_taints(taints, [*(taints or ()), taint_json(hold.taint)]), *changes]


def release_patch(node: Json, hold: Hold) -> JsonPatch:
    """Return the patch that removes the taint of this hold and the annotation. It is empty if the node has neither.

    No other taint is removed. The annotation is removed even if it was changed, unless it belongs to another hold whose taint is on the
    node.
    """
    annotations = node["metadata"].get("annotations") or {}
    text = annotations.get(HOLD_ANNOTATION)
    taints = node["spec"].get("taints")
    kept = [taint for taint in taints or () if not _is_the_taint(taint, hold)]
    untainting = _with_taints(taints, kept) if kept != (taints or []) else []
    if text is None or _has_own_taint(decode_hold(text), kept):
        return untainting
    return [*untainting, {"op": "test", "path": _HOLD_ANNOTATION_PATH, "value": text}, {"op": "remove", "path": _HOLD_ANNOTATION_PATH}]


def held_for_another(node: Json, hold: Hold) -> Hold | None:
    """Return the hold for another pod whose annotation and taint are both on the node as it was read. None if there is none."""
    text = (node["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
    found = decode_hold(text) if text is not None else None
    other = found is not None and found.uid != hold.uid and _has_own_taint(found, node["spec"].get("taints") or ())
    return found if other else None


def is_hold_on(node: Json, hold: Hold) -> bool:
    """Return whether exactly this annotation and its taint are on the node as it was read."""
    text = (node["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
    return text is not None and decode_hold(text) == hold and (hold.nominates or _has_own_taint(hold, node["spec"].get("taints") or ()))


def decode_hold(text: str) -> Hold | None:
    """Return the hold in an annotation's text, or None if it cannot be parsed."""
    try:
        hold = decode_json(Hold, text)
        parse_time(hold.deadline)
    except (DecodeError, ValueError, RecursionError):  # RecursionError: deeply nested JSON, which anyone who may annotate a node can write
        return None
    return hold


def _with_taints(before: list[Json] | None, after: Sequence[Json]) -> JsonPatch:
    change: Json = {"op": "add", "path": _TAINTS, "value": list(after)} if after else {"op": "remove", "path": _TAINTS}
    return [{"op": "test", "path": _TAINTS, "value": before}, change]


def taint_json(taint: Taint) -> Json:
    """Return the taint as in the API."""
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def _hash_of(namespace: str, name: str, uid: str) -> str:
    return hashlib.sha256(f"{namespace}/{name}/{uid}".encode()).hexdigest()[:HASH_LENGTH]


def _has_own_taint(hold: Hold | None, taints: Sequence[Json]) -> bool:
    """Return whether the hold's own taint is on the node. A user who may only annotate the node cannot have set the taint."""
    return hold is not None and bool(hold.key) and is_genuine(hold) and any(_is_the_taint(taint, hold) for taint in taints)


def _is_the_taint(taint: Json, hold: Hold) -> bool:
    return (taint.get("key"), taint.get("value", ""), taint.get("effect")) == (hold.key, hold.value, NO_SCHEDULE)


HOLD_RECORD_PREFIX = "hold."
MAX_KEY_LENGTH = 253
"""Characters of a key in a ConfigMap."""
MAX_HOLD_RECORDS = 500
MAX_RECORD_BYTES = 512 * 1024
"""Bytes of all records with their keys.

A ConfigMap holds 1 MiB. A record has about 500 bytes, and three times as many with the longest names.
"""


class HoldRecord(Struct, frozen=True):
    """The record of one held node. ``node_uid``: if the node was deleted and created again with the same name, it has no hold."""

    node: str
    node_uid: str
    hold: Hold

    def to_text(self) -> str:
        """Return the text that is stored."""
        return encode_json(self).decode()

    def is_about(self, node: Node) -> bool:
        """Return whether the record is for this node, and not for an earlier node with the same name."""
        return self.node == node.name and self.node_uid == node.metadata.uid


def hold_record_key(node_name: str) -> str:
    """Return the key of a node's record in the ConfigMap."""
    key = f"{HOLD_RECORD_PREFIX}{node_name}"
    return key if len(key) <= MAX_KEY_LENGTH else f"{HOLD_RECORD_PREFIX}{hashlib.sha256(node_name.encode()).hexdigest()}"


def read_hold_records(data: Mapping[str, str] | None) -> dict[str, HoldRecord]:
    """Return the records by node name. A text that cannot be parsed, or whose value is not the hash of its pod, counts as absent."""
    found = (_read_record(key, text) for key, text in (data or {}).items() if key.startswith(HOLD_RECORD_PREFIX))
    return {record.node: record for record in found if record is not None}


def size_of(key: str, text: str) -> int:
    """Return the bytes that the API server counts for an entry of a ConfigMap."""
    return len(key.encode(errors="replace")) + len(text.encode(errors="replace"))


def has_space_for(data: Mapping[str, str] | None, record: HoldRecord) -> bool:
    """Return whether the records stay within ``MAX_HOLD_RECORDS`` and ``MAX_RECORD_BYTES`` with this record."""
    others = [other for other in read_hold_records(data).values() if other.node != record.node]
    size = sum(size_of(hold_record_key(other.node), other.to_text()) for other in (*others, record))
    return len(others) < MAX_HOLD_RECORDS and size <= MAX_RECORD_BYTES


def hold_record_patch(
    data: Mapping[str, str] | None, *, put: t.Optional[HoldRecord] = None, drop: Collection[HoldRecord] = ()
) -> dict[str, t.Optional[str]]:
    """Return the changes of ``data`` that write one record and remove others. None removes a key.

    Records that cannot be parsed are removed too.
    """
    data = data or {}
    known = {hold_record_key(name): record for name, record in read_hold_records(data).items()}
    wanted: dict[str, t.Optional[str]] = {key: None for key in data if key.startswith(HOLD_RECORD_PREFIX) and key not in known}
    wanted.update({hold_record_key(record.node): None for record in drop if known.get(hold_record_key(record.node)) == record})
    if put is not None:
        wanted[hold_record_key(put.node)] = put.to_text()
    return {key: text for key, text in wanted.items() if data.get(key) != text}


def _read_record(key: str, text: str) -> t.Optional[HoldRecord]:
    try:
        record = decode_json(HoldRecord, text)
        parse_time(record.hold.deadline)
    except (DecodeError, ValueError, RecursionError):
        return None
    return record if hold_record_key(record.node) == key and is_genuine(record.hold) else None
