# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Holds: a hold reserves a prepared node for one critical pod, until a deadline.

A hold is a taint on the node. Its value has the hash of the pod and the deadline, so that any program can continue the rescue or release
the node. An annotation of the node names the pod for people, and no program reads it. Both are written together and removed together, by a
JSON patch that tests the taints that were read. The resource version cannot be the guard, because the kubelet's heartbeats change it all
the time.

A kubelet may annotate its own Node. It cannot change the taints of a Node that exists (NodeRestriction), so a taint is a proof.
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from collections.abc import Sequence

from ..model.api.node import Node, Taint
from ..model.api.pod import Pod
from ..model.codec import encode_json
from ..model.values.timestamps import format_time

HOLD_ANNOTATION = "kube-scheduling.onprem/hold"
NO_SCHEDULE = "NoSchedule"

Json = dict[str, t.Any]
JsonPatch = list[Json]
"""An RFC 6902 JSON patch."""

MAX_OWNER_LENGTH = 128
"""Characters of the owner's kind and name. Tenants choose these names, and their length is not limited."""
_ANNOTATIONS = "/metadata/annotations"
_HOLD_ANNOTATION_PATH = f"{_ANNOTATIONS}/{HOLD_ANNOTATION.replace('/', '~1')}"
_TAINTS = "/spec/taints"
_VALUE = re.compile(r"rescue-([0-9a-f]{16})-until-([1-9][0-9]{0,9})")


class Hold(t.NamedTuple):
    """A hold on a node. ``deadline_s``: whole seconds since the epoch, by the API server's clock. After it any program may remove the hold.

    ``pod_hash``: the ``hash_of`` the pod.
    """

    key: str
    pod_hash: str
    deadline_s: int

    @property
    def taint(self) -> Taint:
        """Return the taint of the hold."""
        return Taint(key=self.key, value=f"rescue-{self.pod_hash}-until-{self.deadline_s}", effect=NO_SCHEDULE)

    @property
    def deadline(self) -> str:
        """Return the deadline as RFC 3339."""
        return format_time(self.deadline_s)

    def is_for(self, pod: Pod) -> bool:
        """Return whether the hold is for this pod."""
        return self.pod_hash == hash_of(pod)


def hold_taint(key: str) -> Taint:
    """Return a taint that pods tolerate exactly if they tolerate the taint of a hold."""
    return Hold(key, "", 0).taint


def hash_of(pod: Pod) -> str:
    """Return a text that is different for each pod, also for pods of the same name."""
    metadata = pod.metadata
    return hashlib.sha256(f"{metadata.namespace}/{metadata.name}/{metadata.uid}".encode()).hexdigest()[:16]


def read_hold(taint: Taint) -> Hold | None:
    """Return the hold of this taint, or None for any other taint."""
    found = _VALUE.fullmatch(taint.value) if taint.effect == NO_SCHEDULE else None
    return Hold(taint.key, found[1], int(found[2])) if found is not None else None


def hold_on(node: Node) -> Hold | None:
    """Return the hold of the node, or None."""
    return next((hold for taint in node.spec.taints or () if (hold := read_hold(taint)) is not None), None)


def is_foreign_taint(taint: Taint, key: str) -> bool:
    """Return whether the taint has the key and the effect of a hold, and another party has set it."""
    return taint.key == key and taint.effect == NO_SCHEDULE and read_hold(taint) is None


def hold_note(pod: Pod, hold: Hold, *, writer: str, since_s: float) -> str:
    """Return the text of the annotation."""
    owner = pod.metadata.controller
    by = f"{owner.kind} {owner.name}"[:MAX_OWNER_LENGTH] if owner is not None else ""
    note = {"pod": pod.metadata.full_name, "owner": by, "since": format_time(since_s), "deadline": hold.deadline, "writer": writer}
    return encode_json(note).decode()


def hold_patch(node: Json, hold: Hold, note: str) -> JsonPatch:
    """Return the patch that puts the hold on the node, in place of an older one. All other taints are kept.

    ``node`` is the whole JSON as it was read, and ``note`` the text of the annotation.
    """
    annotations = node["metadata"].get("annotations")
    put: JsonPatch = [{"op": "add", "path": _HOLD_ANNOTATION_PATH, "value": note}]
    if annotations is None:
        put = [{"op": "test", "path": _ANNOTATIONS, "value": None}, {"op": "add", "path": _ANNOTATIONS, "value": {}}, *put]
    taints = node["spec"].get("taints")
    others = [taint for taint in taints or () if _hold_of(taint) is None]
    return [*_with_taints(taints, [*others, taint_json(hold.taint)]), *put]


def release_patch(node: Json, hold: Hold) -> JsonPatch:
    """Return the patch that removes the taint of this hold, and the annotation if the node has no other hold. It is empty without both."""
    found, taints = holds_in(node), node["spec"].get("taints")
    patch = _with_taints(taints, [taint for taint in taints if _hold_of(taint) != hold]) if hold in found else []
    if HOLD_ANNOTATION in (node["metadata"].get("annotations") or {}) and not set(found).difference({hold}):
        patch.append({"op": "remove", "path": _HOLD_ANNOTATION_PATH})
    return patch


def holds_in(node: Json) -> list[Hold]:
    """Return the holds of the node as it was read. Two of them have different keys."""
    return [hold for taint in node["spec"].get("taints") or () if (hold := _hold_of(taint)) is not None]


def taint_json(taint: Taint) -> Json:
    """Return the taint as in the API."""
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def _hold_of(taint: Json) -> Hold | None:
    return read_hold(Taint(key=taint.get("key") or "", value=taint.get("value") or "", effect=taint.get("effect") or ""))


def _with_taints(before: list[Json] | None, after: Sequence[Json]) -> JsonPatch:
    change: Json = {"op": "add", "path": _TAINTS, "value": list(after)} if after else {"op": "remove", "path": _TAINTS}
    return [{"op": "test", "path": _TAINTS, "value": before}, change]
