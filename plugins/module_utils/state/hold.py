# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The owner mark of a hold: what keeps a prepared node for one critical pod, and who has put it there, until when.

That is a taint; or the pod is nominated for the node, and the mark alone is on it. Taint and mark are written together and taken off
together, by a JSON patch that tests what was read: the kubelet's heartbeats move a node's resource version all the time, so that it is no
guard. The mark is for people: a kubelet can write it, too, so that it proves nothing (see ``hold_records.py``).
"""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Sequence

from ..model.objects import Node, Pod, Taint
from ..model.timestamps import format_time, parse_time
from ..model.wire import Struct, WireError, decode_json, encode_json

HOLD_ANNOTATION = "kube-scheduling.onprem/hold"
NO_SCHEDULE = "NoSchedule"

Json = dict[str, t.Any]
Operations = list[Json]
"""An RFC 6902 JSON patch."""

_ANNOTATIONS = "/metadata/annotations"
LONGEST_OWNER = 128
"""Characters of the owner's kind and name. Tenants choose them, as long as they like."""
HASH_LENGTH = 16
"""Characters of a taint's value."""
_MARK = f"{_ANNOTATIONS}/{HOLD_ANNOTATION.replace('/', '~1')}"
_TAINTS = "/spec/taints"


class Hold(Struct, frozen=True):
    """The content of the annotation.

    ``key`` and ``value`` are those of the taint, empty where the pod is nominated instead. ``deadline``: RFC 3339, when anybody may take
    the hold off; ``writer``: the program that put it on.
    """

    key: str
    value: str
    namespace: str
    pod: str
    uid: str
    owner: str
    deadline: str
    writer: str

    @property
    def taint(self) -> Taint | None:
        """The taint that belongs to it."""
        return Taint(key=self.key, value=self.value, effect=NO_SCHEDULE) if self.key else None

    @property
    def nominates(self) -> bool:
        """No taint belongs to it, but the pod's nomination for the node."""
        return not self.key

    @property
    def deadline_s(self) -> float:
        """The deadline in seconds since the epoch."""
        return parse_time(self.deadline)

    def has_expired(self, now_s: float) -> bool:
        """Its deadline has passed, by the API server's clock."""
        return self.deadline_s < now_s


def make_hold(pod: Pod, *, key: str, deadline_s: float, writer: str) -> Hold:
    """The hold for a pod until ``deadline_s`` (seconds since the epoch); with an empty ``key`` one by nomination."""
    metadata = pod.metadata
    controller = metadata.controller
    return Hold(
        key=key,
        value=hold_value(pod) if key else "",
        namespace=metadata.namespace,
        pod=metadata.name,
        uid=metadata.uid,
        owner=f"{controller.kind} {controller.name}"[:LONGEST_OWNER] if controller is not None else "",
        deadline=format_time(deadline_s),
        writer=writer,
    )


def hold_taint(pod: Pod, key: str) -> Taint:
    """The taint that keeps a node for the pod."""
    return Taint(key=key, value=hold_value(pod), effect=NO_SCHEDULE)


def hold_value(pod: Pod) -> str:
    """A label value of its own for each pod, however long its name is."""
    metadata = pod.metadata
    return _hash_of(metadata.namespace, metadata.name, metadata.uid)


def is_genuine(hold: Hold) -> bool:
    """The value is the hash of the pod, or there is no taint: no other taint is ever removed."""
    return hold.value == (_hash_of(hold.namespace, hold.pod, hold.uid) if hold.key else "")


def mark_of(node: Node) -> str | None:
    """What is written on the node in place of a mark, whether it can be read or not."""
    return (node.metadata.annotations or {}).get(HOLD_ANNOTATION)


def is_foreign(taint: Taint, key: str, hold: Hold | None) -> bool:
    """The taint keeps ordinary pods off as a hold would, and is not ours."""
    return taint.key == key and taint.effect == NO_SCHEDULE and (hold is None or taint != hold.taint)


def operations_to_hold(node: Json, hold: Hold) -> Operations:
    """The patch that puts the hold on the node as it was read (its whole JSON), beside every taint that it has."""
    annotations = node["metadata"].get("annotations")
    taints = node["spec"].get("taints")
    mark: Json = {"op": "add", "path": _MARK, "value": encode_json(hold).decode()}
    if annotations is None:
        marking: Operations = [{"op": "test", "path": _ANNOTATIONS, "value": None}, {"op": "add", "path": _ANNOTATIONS, "value": {}}, mark]
    else:
        marking = [{"op": "test", "path": _MARK, "value": annotations.get(HOLD_ANNOTATION)}, mark]
    if hold.taint is None:
        return marking
    return [*_with_taints(taints, [*(taints or ()), _json_of(hold.taint)]), *marking]


def operations_to_release(node: Json, hold: Hold) -> Operations:
    """The patch that removes the taint of this hold and the mark, and no other taint; empty where the node has neither.

    The mark is removed whatever somebody has made of it, unless it belongs to another hold whose taint is on the node.
    """
    annotations = node["metadata"].get("annotations") or {}
    mark = annotations.get(HOLD_ANNOTATION)
    taints = node["spec"].get("taints")
    kept = [taint for taint in taints or () if not _is_the_taint(taint, hold)]
    untainting = _with_taints(taints, kept) if kept != (taints or []) else []
    if mark is None or _is_proved(decode_mark(mark), kept):
        return untainting
    return [*untainting, {"op": "test", "path": _MARK, "value": mark}, {"op": "remove", "path": _MARK}]


def held_for_another(node: Json, hold: Hold) -> Hold | None:
    """The hold for another pod whose mark and taint are on the node as it was read."""
    mark = (node["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
    found = decode_mark(mark) if mark is not None else None
    other = found is not None and found.uid != hold.uid and _is_proved(found, node["spec"].get("taints") or ())
    return found if other else None


def is_on(node: Json, hold: Hold) -> bool:
    """Exactly this mark and its taint are on the node as it was read."""
    mark = (node["metadata"].get("annotations") or {}).get(HOLD_ANNOTATION)
    return mark is not None and decode_mark(mark) == hold and (hold.nominates or _is_proved(hold, node["spec"].get("taints") or ()))


def decode_mark(text: str) -> Hold | None:
    """The hold that an annotation's text stands for; None where it cannot be read."""
    try:
        hold = decode_json(Hold, text)
        parse_time(hold.deadline)
    except (WireError, ValueError, RecursionError):  # RecursionError: deeply nested JSON, which whoever may annotate a node can write
        return None
    return hold


def _with_taints(before: list[Json] | None, after: Sequence[Json]) -> Operations:
    change: Json = {"op": "add", "path": _TAINTS, "value": list(after)} if after else {"op": "remove", "path": _TAINTS}
    return [{"op": "test", "path": _TAINTS, "value": before}, change]


def _json_of(taint: Taint) -> Json:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def _hash_of(namespace: str, name: str, uid: str) -> str:
    return hashlib.sha256(f"{namespace}/{name}/{uid}".encode()).hexdigest()[:HASH_LENGTH]


def _is_proved(hold: Hold | None, taints: Sequence[Json]) -> bool:
    """Its own taint is there: whoever may only annotate the node cannot have set it."""
    return hold is not None and bool(hold.key) and is_genuine(hold) and any(_is_the_taint(taint, hold) for taint in taints)


def _is_the_taint(taint: Json, hold: Hold) -> bool:
    return (taint.get("key"), taint.get("value", ""), taint.get("effect")) == (hold.key, hold.value, NO_SCHEDULE)
