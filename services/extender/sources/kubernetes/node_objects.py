# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes as the sources need them: addresses, labels, allocatable and the annotations that have the form of a value.

That form is ``value``, or ``value,time`` with an RFC 3339 time or the seconds since the epoch. kube-safe-scheduler's annotators write
``value``, and crane's write ``value,time``.

The structs belong to this file, so that those of the rescuer need no field for the extender.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping
from functools import lru_cache

from .....plugins.module_utils.kube.cache.store import Store
from .....plugins.module_utils.kube.client.resources import NODES
from .....plugins.module_utils.model.api.meta import ApiStruct, ObjectMeta, ResourceList
from .....plugins.module_utils.model.api.node import Node, NodeStatus
from .....plugins.module_utils.model.codec import Struct, field
from .....plugins.module_utils.model.values.timestamps import parse_time
from .....plugins.module_utils.scheduler.pod_requests import node_allocatable
from ...memory_limits import MAX_ANNOTATIONS, limited_labels, limited_requests

HOSTNAME_LABEL = "kubernetes.io/hostname"
INTERNAL_IP, HOSTNAME = "InternalIP", "Hostname"

MOST_ALLOCATABLE = 1024
"""Different allocatable resources of nodes that are kept."""

_shared = lru_cache(maxsize=32768)(str)
"""Returns the first text that was equal to a text. Python 3.12 never frees a text of ``sys.intern``."""

LONGEST_VALUE = 64
"""Characters of the longest annotation that can be a value with a time."""

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
_ANNOTATION = re.compile(rf"\s*(?P<value>{_NUMBER})\s*(?:,\s*(?P<time>[0-9][0-9A-Za-z:.+-]*)\s*)?", re.ASCII)
_EPOCH = re.compile(r"[0-9]{1,11}(?:\.[0-9]+)?", re.ASCII)


class _Address(ApiStruct, frozen=True):
    type: str = ""
    address: str = ""


class _Status(ApiStruct, frozen=True):
    allocatable: ResourceList | None = None
    addresses: tuple[_Address, ...] | None = None


class _Node(ApiStruct, frozen=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: _Status = field(default_factory=_Status)


NODE_RESOURCE = NODES._replace(type=_Node, checked_by_store=False)


class AnnotatedValue(t.NamedTuple):
    """The value of an annotation. ``time_s``: seconds since the epoch, or None if the annotation has no time."""

    value: float
    time_s: float | None


class Identity(Struct, frozen=False, gc=False):
    """The identity of an object in a store. The store writes ``resource_version``."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class NodeIdentity(t.NamedTuple):
    """The texts by which a series can refer to a node."""

    name: str
    addresses: tuple[str, ...] = ()
    hostname: str = ""


class NodeRecord(Struct, frozen=True, gc=False):
    """One node. ``annotations`` has only those that are values. ``address``: the first InternalIP, or an empty text.

    ``problem``: the reason why its annotations are not used, or an empty text.
    """

    metadata: Identity
    labels: Mapping[str, str]
    annotations: Mapping[str, AnnotatedValue]
    allocatable: Mapping[str, int]
    identity: NodeIdentity
    address: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        """Return the name of the node."""
        return self.metadata.name


class NodeStore(Store):
    """The store of nodes, as ``NodeRecord``."""

    def __init__(self) -> None:
        super().__init__(NODE_RESOURCE)

    def _interned(self, item: t.Any) -> NodeRecord:
        return _record_of(item)


def _record_of(node: _Node) -> NodeRecord:
    metadata, status = node.metadata, node.status
    addresses = status.addresses or ()
    labels = _interned(limited_labels(metadata.labels or {}))
    values = ((_shared(key), parse_annotation(text)) for key, text in (metadata.annotations or {}).items())
    annotations = {key: value for key, value in values if value is not None}
    problem = ""
    if len(annotations) > MAX_ANNOTATIONS:
        problem = f"node {metadata.name} has {len(annotations)} annotations with numbers, and more than {MAX_ANNOTATIONS} are not used"
        annotations = {}
    return NodeRecord(
        metadata=Identity(metadata.name, "", metadata.uid, metadata.resource_version),
        labels=labels,
        annotations=annotations,
        allocatable=_allocatable(tuple(limited_requests(status.allocatable or {}).items())),
        identity=NodeIdentity(metadata.name, _own_addresses(addresses), (metadata.labels or {}).get(HOSTNAME_LABEL, "")),
        address=next((entry.address for entry in addresses if entry.type == INTERNAL_IP), ""),
        problem=problem,
    )


def _own_addresses(addresses: Iterable[_Address]) -> tuple[str, ...]:
    """Return the first InternalIP of each family, and the first Hostname. A kubelet could claim the addresses of any number of nodes."""
    first: dict[tuple[str, bool], str] = {}
    for entry in addresses:
        if entry.type in (INTERNAL_IP, HOSTNAME) and entry.address:
            first.setdefault((entry.type, entry.type == INTERNAL_IP and ":" in entry.address), entry.address)
    return tuple(dict.fromkeys(first.values()))


@lru_cache(maxsize=MOST_ALLOCATABLE)
def _allocatable(quantities: tuple[tuple[str, str], ...]) -> Mapping[str, int]:
    """Return the allocatable resources. The quantities were checked when the node was decoded. Nodes of one type share the result."""
    return node_allocatable(Node(status=NodeStatus(allocatable=dict(quantities))))


def _interned(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts with equal ones kept once. The keys and most values of labels occur on many nodes."""
    return {_shared(key): _shared(value) for key, value in texts.items()}


def parse_annotation(text: str) -> AnnotatedValue | None:
    """Return the value in an annotation. None if it has none, or a time that cannot be read."""
    found = _ANNOTATION.fullmatch(text) if len(text) <= LONGEST_VALUE else None
    if found is None:
        return None
    value, time_text = float(found["value"]), found["time"]
    time_s = _time_of(time_text) if time_text is not None else None
    if abs(value) == float("inf") or (time_s is None and time_text is not None):
        return None
    return AnnotatedValue(value, time_s)


def _time_of(text: str) -> float | None:
    if _EPOCH.fullmatch(text):
        return float(text)
    try:
        return parse_time(text)
    except ValueError:
        return None
