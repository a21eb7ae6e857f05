# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Leases, ConfigMaps and Events (k8s.io/api v1.36)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, ObjectMeta


class LeaseSpec(ApiStruct, frozen=True):
    """The holder and the duration of a Lease. Times are RFC 3339 with microseconds, the duration is in whole seconds."""

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
    """A ConfigMap without its binary data."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    data: t.Optional[dict[str, str]] = None


class EventSeries(ApiStruct, frozen=True):
    """The count and the last time of an Event that occurred several times."""

    count: int = 0
    last_observed_time: t.Optional[str] = None


class Event(ApiStruct, frozen=True):
    """A core/v1 Event. Older and newer writers fill in different time fields."""

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
        """Return the time of the last occurrence, RFC 3339. It is empty if no time field is set."""
        again = self.series.last_observed_time if self.series is not None else None
        return again or self.last_timestamp or self.event_time or self.first_timestamp or self.metadata.creation_timestamp or ""
