# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod of a request. Each request needs its identity, and many need its demand.

The pods of a Deployment have the same resources, so the demand is calculated once for equal JSON of the resources.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from .....plugins.module_utils.model.api.meta import OwnerReference, controller_of
from .....plugins.module_utils.model.api.pod import Container, Pod, PodSpec, ResourceRequirements
from .....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, decode_object, field
from .....plugins.module_utils.model.values.quantity import QuantityError
from ...engine.dithering import table_key
from ...interface import Demand, PodView
from ...sources.kubernetes.pod_demand import EGRESS_BANDWIDTH, INGRESS_BANDWIDTH, demand_of
from ...sources.kubernetes.pod_owner import owner_name

ABSENT_JSON = b"null"
ABSENT = Raw(ABSENT_JSON)
"""The JSON of a part that is not there. msgspec does not allow None beside Raw."""

T = t.TypeVar("T")

MAX_DEMANDS = 256
"""Demands that are kept."""

MAX_CHARACTERS = 16 * 1024
"""A demand that depends on a longer text is not kept."""


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


class DemandParts(t.NamedTuple):
    """The parts of a pod on which the demand depends. ``resources`` and ``overhead`` are JSON."""

    containers: ContainerParts
    init_containers: ContainerParts
    resources: bytes
    overhead: bytes
    ingress: str | None
    egress: str | None


_kept: dict[DemandParts, Demand] = {}
"""The demands of the last pods."""


class RequestPod:
    """The pod of a request. ``json`` returns its JSON, which a pod in the ordinary form does not need."""

    __slots__ = ("_json", "_known_view", "_source", "name", "namespace", "scheduler_name", "uid")

    def __init__(self, head: PodSource | PodHead, json: Callable[[], bytes]) -> None:
        meta = head.metadata
        self.namespace, self.name, self.uid = meta.namespace, meta.name, meta.uid
        self.scheduler_name = head.spec.scheduler_name
        self._source, self._json = head, json
        self._known_view: PodView | None = None

    @classmethod
    def of(cls, data: bytes) -> RequestPod:
        """Return the pod. Raises DecodeError."""
        try:
            return cls(decode_json(PodSource, data), lambda: data)
        except DecodeError:
            return cls(decode_object(PodHead, data), lambda: data)

    @property
    def data(self) -> bytes:
        """Return the JSON."""
        return self._json()

    @property
    def key(self) -> str:
        """Return what selects the table."""
        return table_key(self.namespace, self.name, self.uid)

    @property
    def view(self) -> PodView:
        """Return the pod as agents see it. Raises DecodeError or QuantityError."""
        if self._known_view is None:
            self._known_view = self._read_view()
        return self._known_view

    def _read_view(self) -> PodView:
        source = self._source
        if isinstance(source, PodSource):
            try:
                meta = source.metadata
                return self._view(meta.labels, controller_of(meta.owner_references), _demand_of(source))
            except (DecodeError, QuantityError):
                # The error of the whole pod names its place.
                pass
        pod = decode_object(Pod, self.data)
        return self._view(pod.metadata.labels, pod.metadata.controller, demand_of(pod, pod.metadata.annotations or {}, from_status=False))

    def _view(self, labels: dict[str, str] | None, controller: OwnerReference | None, demand: Demand) -> PodView:
        owner = owner_name(controller, labels or {})
        return PodView(self.namespace, self.name, self.uid, self.scheduler_name, labels or {}, demand, owner=owner)


def _demand_of(source: PodSource) -> Demand:
    spec, texts = source.spec, source.metadata.annotations
    parts = DemandParts(
        _parts_of(spec.containers),
        _parts_of(spec.init_containers),
        bytes(spec.resources),
        bytes(spec.overhead),
        texts.ingress if texts is not None else None,
        texts.egress if texts is not None else None,
    )
    found = _kept.get(parts)
    if found is None:
        found = _calculated(parts)
        if len(_kept) >= MAX_DEMANDS:
            _kept.clear()
        if len(repr(parts)) <= MAX_CHARACTERS:
            _kept[parts] = found
    return found


def _parts_of(containers: tuple[ContainerSource, ...] | None) -> ContainerParts:
    return tuple([(bytes(one.resources), one.restart_policy) for one in containers]) if containers else ()


def _calculated(parts: DemandParts) -> Demand:
    """Return the demand. Raises DecodeError or QuantityError."""
    spec = PodSpec(
        containers=_containers(parts.containers),
        init_containers=_containers(parts.init_containers),
        resources=_decoded(ResourceRequirements, parts.resources),
        overhead=_decoded(dict[str, str], parts.overhead),
    )
    texts = {INGRESS_BANDWIDTH: parts.ingress, EGRESS_BANDWIDTH: parts.egress}
    return demand_of(Pod(spec=spec), {key: text for key, text in texts.items() if text is not None}, from_status=False)


def _containers(parts: ContainerParts) -> tuple[Container, ...]:
    return tuple(Container(resources=_decoded(ResourceRequirements, resources), restart_policy=policy) for resources, policy in parts)


def _decoded(kind: type[T], data: bytes) -> T | None:
    return decode_object(kind, data) if data != ABSENT_JSON else None
