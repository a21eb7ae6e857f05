# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Namespaces, and the ResourceQuotas and LimitRanges that limit their pods (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, ObjectMeta, ResourceList
from .pod import PodStatus


class Namespace(ApiStruct, frozen=True):
    """A namespace. If ``status.phase`` is Terminating, the namespace accepts no new pods."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: PodStatus = field(default_factory=PodStatus)


class ScopeSelectorRequirement(ApiStruct, frozen=True):
    """One scope of a quota."""

    scope_name: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class ScopeSelector(ApiStruct, frozen=True):
    """The scopes of a quota."""

    match_expressions: t.Optional[tuple[ScopeSelectorRequirement, ...]] = None


class ResourceQuotaSpec(ApiStruct, frozen=True):
    """The limits of a quota, and the scopes that select the pods it counts."""

    hard: t.Optional[ResourceList] = None
    scopes: t.Optional[tuple[str, ...]] = None
    scope_selector: t.Optional[ScopeSelector] = None


class ResourceQuotaStatus(ApiStruct, frozen=True):
    """The limits and the current use of a quota."""

    hard: t.Optional[ResourceList] = None
    used: t.Optional[ResourceList] = None


class ResourceQuota(ApiStruct, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


class LimitRangeItem(ApiStruct, frozen=True):
    """Defaults that admission sets for containers without requests or limits, and the bounds outside which admission rejects a pod."""

    type: str = ""
    default: t.Optional[ResourceList] = None
    default_request: t.Optional[ResourceList] = None
    max: t.Optional[ResourceList] = None
    min: t.Optional[ResourceList] = None
    max_limit_request_ratio: t.Optional[ResourceList] = None


class LimitRangeSpec(ApiStruct, frozen=True):
    """The limits of a LimitRange."""

    limits: t.Optional[tuple[LimitRangeItem, ...]] = None


class LimitRange(ApiStruct, frozen=True):
    """A LimitRange."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)
