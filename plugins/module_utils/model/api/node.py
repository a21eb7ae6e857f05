# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes, taints and node selectors (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, Condition, Labels, ObjectMeta, ResourceList


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """One expression over a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class NodeSelectorTerm(ApiStruct, frozen=True):
    """Expressions that must all match. A term without expressions selects no node."""

    match_expressions: t.Optional[tuple[NodeSelectorRequirement, ...]] = None
    match_fields: t.Optional[tuple[NodeSelectorRequirement, ...]] = None


class NodeSelector(ApiStruct, frozen=True):
    """Terms. A node is selected if at least one term matches."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Taint(ApiStruct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiStruct, frozen=True):
    """The cordon and the taints of a node."""

    unschedulable: bool = False
    taints: t.Optional[tuple[Taint, ...]] = None


class NodeStatus(ApiStruct, frozen=True):
    """The capacity, the conditions and the declared features of a node."""

    allocatable: t.Optional[ResourceList] = None
    capacity: t.Optional[ResourceList] = None
    conditions: t.Optional[tuple[Condition, ...]] = None
    declared_features: t.Optional[tuple[str, ...]] = None


class Node(ApiStruct, frozen=True):
    """A node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def name(self) -> str:
        """Return the node's name. Pods refer to the node by it."""
        return self.metadata.name

    @property
    def labels(self) -> Labels:
        """Return the node's labels. They are empty if the node has none."""
        return self.metadata.labels or {}

    @property
    def ready(self) -> bool:
        """Return whether the Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


class ContainerImage(ApiStruct, frozen=True):
    """An image on a node. Each of its names is a tag or a digest of it."""

    names: t.Optional[tuple[str, ...]] = None
    size_bytes: int = 0


class StatusWithImages(NodeStatus, frozen=True):
    """The status of a node with its images."""

    images: t.Optional[tuple[ContainerImage, ...]] = None


class NodeWithImages(Node, frozen=True):
    """A node with its images. They are most of a node's bytes, and only scores depend on them, so other readings leave them out."""

    status: StatusWithImages = field(default_factory=StatusWithImages)
