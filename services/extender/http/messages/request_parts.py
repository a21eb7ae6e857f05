# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts that all messages of kube-scheduler to an extender have in common: their decoding, their pod and their errors."""

from __future__ import annotations

import typing as t
from functools import cached_property

from .....plugins.module_utils.model.api.pod import Pod
from .....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, decode_object, field
from ...engine.dithering import table_key
from ...interface import PodView
from ...sources.kubernetes.pod_demand import demand_of
from ...sources.kubernetes.pod_owner import owner_name

ABSENT_JSON = b"null"
ABSENT = Raw(ABSENT_JSON)
"""The JSON of a part that is not there. msgspec does not allow None beside Raw."""

MOST_NODES = 20_000
"""The nodes of a request. Kubernetes supports 5,000."""

T = t.TypeVar("T")


class BadRequestError(ValueError):
    """The body cannot be used. The text says what is expected. ``status``: the code of the answer."""

    status = 400


class TooManyNodesError(BadRequestError):
    """The request has more nodes than any cluster."""

    status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the request has more than {most} nodes: this is the limit for the nodes that the extender knows")


class PodMeta(Struct):
    """The identity of a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class PodSpecHead(Struct):
    """The field of a pod's spec that selects the profile."""

    scheduler_name: str = field(default="", name="schedulerName")


class PodHead(Struct):
    """The fields of a pod that every request needs. A pod whose other fields cannot be read has them, too."""

    metadata: PodMeta = field(default_factory=PodMeta)
    spec: PodSpecHead = field(default_factory=PodSpecHead)


class RequestPod:
    """The pod of a request. ``data``: its JSON. Raises DecodeError."""

    def __init__(self, data: bytes) -> None:
        head = decode_object(PodHead, data)
        self.data, self.scheduler_name = data, head.spec.scheduler_name
        self.namespace, self.name, self.uid = head.metadata.namespace, head.metadata.name, head.metadata.uid

    @property
    def key(self) -> str:
        """Return what selects the table."""
        return table_key(self.namespace, self.name, self.uid)

    @cached_property
    def view(self) -> PodView:
        """Return the pod as agents see it. Raises DecodeError or QuantityError."""
        pod = decode_object(Pod, self.data)
        labels, owner = pod.metadata.labels or {}, pod.metadata.controller
        demand = demand_of(pod, pod.metadata.annotations or {}, from_status=False)
        return PodView(self.namespace, self.name, self.uid, self.scheduler_name, labels, demand, owner=owner_name(owner, labels))


def pod_of(data: Raw) -> RequestPod:
    """Return the pod of a request. Raises BadRequestError."""
    part = bytes(data)
    if part == ABSENT_JSON:
        raise BadRequestError("the body has no Pod")
    try:
        return RequestPod(part)
    except DecodeError as error:
        raise BadRequestError(f"the Pod cannot be read: {_reason(error)}") from None


def decoded(kind: type[T], data: bytes, body: str = "ExtenderArgs") -> T:
    """Return a part of the body. ``body``: the name of the whole body's type in ``extender/v1/types.go``, for the error.

    Raises BadRequestError.
    """
    try:
        return decode_json(kind, data)
    except DecodeError as error:
        raise BadRequestError(f"the body is not {body}: {_reason(error)}") from None


def _reason(error: DecodeError) -> str:
    return str(error.__cause__ or error)
