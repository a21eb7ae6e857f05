# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Objects that cannot be decoded, with the parts that can be read separately.

An undecodable object affects only itself. Each rule that needs such an object must return a reason that names it:

- Pod: the free capacity of its node is unknown, so no rescue is planned there, and a restart is not certain to help. It is not evicted, and
  its workload loses no other pod. If its node cannot be read, this is so for all nodes. A pod that has no node or has finished affects
  nothing, except that a critical one is not rescued.
- Node: it is no candidate and in no domain. Its pods count.
- PodDisruptionBudget: it protects each pod that its selector selects, and all pods of its namespace if the selector cannot be read.
- Deployment, StatefulSet: it is not checked, and not restarted. ReplicaSet: its Deployment is unknown, and not restarted.
- ResourceQuota, LimitRange: no restart and no eviction in its namespace.
- HorizontalPodAutoscaler: in its namespace a restart is not certain to help, and no surplus pod is evicted.
- PersistentVolumeClaim, PersistentVolume, StorageClass, objects of CSI drivers, DeviceClass: pods that need it are unknown.
- Service: scores by the default constraints of the scheduler are unknown, unless no Service can change them.
- Job: its pods are evicted last among pods of the same priority. Namespace: its workloads are not checked.
- Lease, ConfigMap: an error that names it, and another try. Event: it counts as absent.
- The answer to a write: no error, because the write was done.

In a watch, an undecodable version replaces the version before it. A page of a list that is not JSON fails as a whole.
"""

from __future__ import annotations

import hashlib
import typing as t

from .api.meta import ApiStruct, LabelSelector, ObjectMeta, OwnerReference
from .api.pod import Pod, PodSpec, PodStatus
from .codec import DecodeError, decode_json, decode_object, decode_parts, field, member, replace
from .reason import Reason

UNDECODABLE = "undecodable"
"""The code of every reason about an undecodable object."""


_SYNTHETIC_UID_PREFIX = "unreadable:"
"""The prefix of the uid that an object gets if neither its uid nor its name can be read."""


class Undecodable(ApiStruct, frozen=True):
    """An object that cannot be decoded. ``metadata`` has the parts that can be read, ``message`` is the error.

    ``owner_uid``: the uid of its controller. ``node_name``: the node of a pod. Both are empty if there is none, and None if they cannot be
    read. ``phase``: the phase of a pod.
    ``selector``: the selector of a PodDisruptionBudget. One that cannot be read is empty, so that it selects every pod.
    """

    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    message: str = ""
    owner_uid: t.Optional[str] = ""
    node_name: t.Optional[str] = ""
    phase: str = ""
    selector: t.Optional[LabelSelector] = None

    @property
    def identified(self) -> bool:
        """Return whether the uid can be read. Then other versions of the object can be matched with it."""
        return bool(self.metadata.uid) and not self.metadata.uid.startswith(_SYNTHETIC_UID_PREFIX)

    @property
    def name(self) -> str:
        """Return kind, namespace and name, as far as they can be read."""
        metadata = self.metadata
        return f"{self.kind} {'/'.join(filter(None, (metadata.namespace, metadata.name))) or '(without a readable name)'}"

    @property
    def text(self) -> str:
        """Return one sentence for messages."""
        return f"{self.name} cannot be decoded: {self.message}"

    @property
    def reason(self) -> Reason:
        """Return the reason for an object that depends on this one."""
        return Reason(UNDECODABLE, self.text)

    @property
    def finished(self) -> bool:
        """Return whether it is a pod that no longer uses its node's resources."""
        return self.phase in ("Succeeded", "Failed")

    def may_be_in(self, namespace: str) -> bool:
        """Return whether it is in the namespace, or its namespace cannot be read."""
        return self.metadata.namespace in ("", namespace)

    def may_be(self, namespace: str, name: str) -> bool:
        """Return whether it has this namespace and name. A part that cannot be read counts as equal."""
        return self.may_be_in(namespace) and self.metadata.name in ("", name)


class UndecodablePod(Pod, frozen=True):
    """Placeholder for a pod that cannot be decoded. Only its metadata, node and phase are known, as far as they can be read."""

    undecodable: Undecodable = field(default_factory=Undecodable)


def read_undecodable(kind: str, data: bytes, message: str) -> Undecodable:
    """Return the parts that can be read of an object of that kind."""
    return Undecodable(
        kind=kind,
        metadata=_metadata(data),
        message=message,
        owner_uid=_owner_uid(data),
        node_name=_node_name(data),
        phase=_text(data, "status", "phase"),
        selector=_selector(data),
    )


def as_undecodable(kind: str, item: t.Any, message: str) -> Undecodable:
    """Return the ``Undecodable`` of an object that was decoded but has a value that cannot be parsed."""
    controller = item.metadata.controller
    selector = getattr(getattr(item, "spec", None), "selector", None)
    return Undecodable(
        kind=kind,
        metadata=item.metadata,
        message=message,
        owner_uid=controller.uid if controller is not None else "",
        node_name=item.spec.node_name if isinstance(item, Pod) else "",
        phase=item.status.phase if isinstance(item, Pod) else "",
        selector=selector if isinstance(selector, LabelSelector) else None,
    )


def placeholder_pod(undecodable: Undecodable) -> UndecodablePod:
    """Return the placeholder for a pod that cannot be decoded."""
    return UndecodablePod(
        metadata=undecodable.metadata,
        spec=PodSpec(node_name=undecodable.node_name or ""),
        status=PodStatus(phase=undecodable.phase),
        undecodable=undecodable,
    )


def undecodable_of(item: t.Any) -> t.Optional[Undecodable]:
    """Return the ``Undecodable`` of the object, or None if the object was decoded."""
    if isinstance(item, Undecodable):
        return item
    return item.undecodable if isinstance(item, UndecodablePod) else None


def undecodable_results(objects: t.Iterable[Undecodable]) -> list[dict[str, str]]:
    """Return the objects as they are listed in results, sorted and without duplicates."""
    rows = {
        (one.kind, one.metadata.namespace, one.metadata.name): {
            "kind": one.kind,
            "namespace": one.metadata.namespace,
            "name": one.metadata.name,
            "reason": UNDECODABLE,
            "message": one.message,
        }
        for one in objects
    }
    return [rows[key] for key in sorted(rows)]


def _metadata(data: bytes) -> ObjectMeta:
    try:
        metadata = decode_parts(ObjectMeta, member(data, "metadata") or b"{}")
    except DecodeError:
        metadata = ObjectMeta()
    if metadata.uid or metadata.name:
        return metadata
    return replace(metadata, uid=f"{_SYNTHETIC_UID_PREFIX}{hashlib.sha256(data).hexdigest()[:16]}")


def _owner_uid(data: bytes) -> t.Optional[str]:
    try:
        part = member(data, "metadata", "ownerReferences")
        owners = decode_object(tuple[OwnerReference, ...], part) if part is not None else ()
    except DecodeError:
        return None
    return next((owner.uid for owner in owners if owner.controller), "")


def _node_name(data: bytes) -> t.Optional[str]:
    try:
        part = member(data, "spec", "nodeName")
        return decode_json(str, part) if part is not None else ""
    except DecodeError:
        return None


def _text(data: bytes, *path: str) -> str:
    try:
        part = member(data, *path)
        return decode_json(str, part) if part is not None else ""
    except DecodeError:
        return ""


def _selector(data: bytes) -> t.Optional[LabelSelector]:
    try:
        part = member(data, "spec", "selector")
        return decode_object(LabelSelector, part) if part is not None else None
    except DecodeError:
        return LabelSelector()
