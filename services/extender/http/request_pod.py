# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod of a request. Each request needs its identity, and many need its demand.

The pods of a Deployment have the same resources, so the demand is calculated once for equal JSON of the resources.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ....plugins.module_utils.model.api.meta import OwnerReference, controller_of
from ....plugins.module_utils.model.api.pod import Container, Pod, PodSpec, ResourceRequirements
from ....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, decode_object, field
from ....plugins.module_utils.model.values.quantity import QuantityError
from ....plugins.module_utils.scheduler.pod_requests import pod_requests
from ..engine.dithering import table_key
from ..interface import Demand, PodView
from ..sources.pod_objects import EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, bandwidth
from ..sources.pod_owner import owner_name

ABSENT_JSON = b"null"
ABSENT = Raw(ABSENT_JSON)

T = t.TypeVar("T")

MAX_DEMANDS = 256
"""Demands that are kept."""

MAX_POD_BYTES = 16 * 1024
"""The demand of a pod with longer JSON is not kept."""


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


class ContainerSource(Struct):
    """The parts of a container on which the demand depends. ``resources`` is JSON."""

    resources: Raw = ABSENT
    restart_policy: str | None = field(default=None, name="restartPolicy")


class BandwidthTexts(Struct):
    """The annotations on which the demand depends."""

    ingress: str | None = field(default=None, name=INGRESS_BANDWIDTH)
    egress: str | None = field(default=None, name=EGRESS_BANDWIDTH)


class MetaSource(PodMeta):
    """The metadata that agents use."""

    labels: dict[str, str] | None = None
    annotations: BandwidthTexts | None = None
    owner_references: tuple[OwnerReference, ...] | None = field(default=None, name="ownerReferences")


class SpecSource(PodSpecHead):
    """The parts of a pod's spec on which the demand depends. ``resources`` and ``overhead`` are JSON."""

    containers: tuple[ContainerSource, ...] | None = None
    init_containers: tuple[ContainerSource, ...] | None = field(default=None, name="initContainers")
    resources: Raw = ABSENT
    overhead: Raw = ABSENT


class PodSource(Struct):
    """The fields of a pod that are used. Their decoding takes no longer than that of PodHead."""

    metadata: MetaSource
    spec: SpecSource


ContainerParts = tuple[tuple[bytes, str | None], ...]
"""The JSON of the resources of each container, and its restart policy."""


@dataclass
class RequestPod:
    """The pod of a request. ``data`` is its JSON. ``source`` is None if it can only be decoded in the slow way."""

    namespace: str
    name: str
    uid: str
    scheduler_name: str
    data: bytes
    source: PodSource | None = None

    @classmethod
    def of(cls, data: bytes) -> RequestPod:
        """Return the pod. Raises DecodeError."""
        head: PodSource | PodHead
        try:
            head = source = decode_json(PodSource, data)
        except DecodeError:
            head, source = decode_object(PodHead, data), None
        meta = head.metadata
        return cls(meta.namespace, meta.name, meta.uid, head.spec.scheduler_name, data, source)

    @property
    def key(self) -> str:
        """Return what selects the table."""
        return table_key(self.namespace, self.name, self.uid)

    @cached_property
    def view(self) -> PodView:
        """Return the pod as agents see it. Raises DecodeError or QuantityError."""
        if self.source is not None and len(self.data) <= MAX_POD_BYTES:
            try:
                meta = self.source.metadata
                return self._view(meta.labels, controller_of(meta.owner_references), _demand_of(self.source))
            except (DecodeError, QuantityError):
                # The error of the whole pod names its place.
                pass
        pod = decode_object(Pod, self.data)
        return self._view(pod.metadata.labels, pod.metadata.controller, _demand(pod, pod.metadata.annotations or {}))

    def _view(self, labels: dict[str, str] | None, controller: OwnerReference | None, demand: Demand) -> PodView:
        owner = owner_name(controller, labels or {})
        return PodView(self.namespace, self.name, self.uid, self.scheduler_name, labels or {}, demand, owner=owner)


def _demand_of(source: PodSource) -> Demand:
    spec, texts = source.spec, source.metadata.annotations
    return _kept_demand(
        _parts_of(spec.containers),
        _parts_of(spec.init_containers),
        bytes(spec.resources),
        bytes(spec.overhead),
        texts.ingress if texts is not None else None,
        texts.egress if texts is not None else None,
    )


def _parts_of(containers: tuple[ContainerSource, ...] | None) -> ContainerParts:
    return tuple([(bytes(one.resources), one.restart_policy) for one in containers]) if containers else ()


@lru_cache(maxsize=MAX_DEMANDS)
def _kept_demand(
    containers: ContainerParts, init_containers: ContainerParts, resources: bytes, overhead: bytes, ingress: str | None, egress: str | None
) -> Demand:
    """Return the demand, which depends on nothing else. Raises DecodeError or QuantityError."""
    spec = PodSpec(
        containers=_containers(containers),
        init_containers=_containers(init_containers),
        resources=_decoded(ResourceRequirements, resources),
        overhead=_decoded(dict[str, str], overhead),
    )
    texts = {INGRESS_BANDWIDTH: ingress, EGRESS_BANDWIDTH: egress}
    return _demand(Pod(spec=spec), {key: text for key, text in texts.items() if text is not None})


def _containers(parts: ContainerParts) -> tuple[Container, ...]:
    return tuple(Container(resources=_decoded(ResourceRequirements, resources), restart_policy=policy) for resources, policy in parts)


def _decoded(kind: type[T], data: bytes) -> T | None:
    return decode_object(kind, data) if data != ABSENT_JSON else None


def _demand(pod: Pod, annotations: Mapping[str, str]) -> Demand:
    return Demand(pod_requests(pod, from_status=False), bandwidth(annotations, INGRESS_BANDWIDTH), bandwidth(annotations, EGRESS_BANDWIDTH))
