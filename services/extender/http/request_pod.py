# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod of a request. Its identity is read for each request, and its demand only if the scores depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ....plugins.module_utils.model.api.pod import Pod
from ....plugins.module_utils.model.codec import Struct, decode_object, field
from ....plugins.module_utils.scheduler.pod_requests import pod_requests
from ..interface import Demand, PodView
from ..sources.pod_objects import EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, bandwidth
from ..sources.pod_owner import owner_name


class PodMeta(Struct):
    """The identity of a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class PodSpecHead(Struct):
    """The field of a pod's spec that selects the profile."""

    scheduler_name: str = field(default="", name="schedulerName")


class PodHead(Struct):
    """The fields of a pod that every request needs."""

    metadata: PodMeta = field(default_factory=PodMeta)
    spec: PodSpecHead = field(default_factory=PodSpecHead)


@dataclass
class RequestPod:
    """The pod of a request. ``data`` is its JSON."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> RequestPod:
        """Return the pod. Raises DecodeError."""
        head = decode_object(PodHead, data)
        meta = head.metadata
        return cls(meta.namespace, meta.name, meta.uid, head.spec.scheduler_name, data)

    @property
    def key(self) -> str:
        """Return what selects the table: the UID, or the name of a pod without a UID."""
        return self.uid or f"{self.namespace}/{self.name}"

    @cached_property
    def view(self) -> PodView:
        """Return the pod as agents see it. Raises DecodeError or QuantityError."""
        pod = decode_object(Pod, self.data)
        annotations = pod.metadata.annotations or {}
        demand = Demand(
            pod_requests(pod, from_status=False), bandwidth(annotations, INGRESS_BANDWIDTH), bandwidth(annotations, EGRESS_BANDWIDTH)
        )
        labels = pod.metadata.labels or {}
        owner = owner_name(pod.metadata.controller, labels)
        return PodView(self.namespace, self.name, self.uid, self.scheduler_name, labels, demand, owner=owner)
