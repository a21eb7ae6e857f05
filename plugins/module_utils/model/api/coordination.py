# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Leases, ConfigMaps and Events: objects that programs write for each other and for people (k8s.io/api v1.36)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, ObjectMeta


class LeaseSpec(ApiStruct, frozen=True):
    """Who holds a Lease, and until when: times are RFC 3339 with microseconds, the duration is whole seconds."""

    holder_identity: t.Optional[str] = None
    lease_duration_seconds: t.Optional[int] = None
    acquire_time: t.Optional[str] = None
    renew_time: t.Optional[str] = None
    lease_transitions: t.Optional[int] = None


class Lease(ApiStruct, frozen=True):
    """A Lease (coordination.k8s.io/v1)."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LeaseSpec = field(default_factory=LeaseSpec)


class ConfigMap(ApiStruct, frozen=True):
    """A ConfigMap's texts; binary data are left out."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: t.Optional[dict[str, str]] = None


class EventSeries(ApiStruct, frozen=True):
    """An Event that was seen again and again."""

    count: int = 0
    last_observed_time: t.Optional[str] = None


class Event(ApiStruct, frozen=True):
    """A core/v1 Event, as older and as newer writers fill it in."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    type: str = ""
    reason: str = ""
    message: str = ""
    reporting_component: str = ""
    first_timestamp: t.Optional[str] = None
    last_timestamp: t.Optional[str] = None
    event_time: t.Optional[str] = None
    series: t.Optional[EventSeries] = None

    @property
    def last_seen(self) -> str:
        """When it was last seen, RFC 3339; empty where nobody wrote that down."""
        again = self.series.last_observed_time if self.series is not None else None
        return again or self.last_timestamp or self.event_time or self.first_timestamp or self.metadata.creation_timestamp or ""
