# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Services (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, Labels, ObjectMeta


class ServiceSpec(ApiStruct, frozen=True):
    """The pods of a Service. An absent selector selects no pod, and an empty one selects all pods of the namespace."""

    selector: t.Optional[Labels] = None


class Service(ApiStruct, frozen=True):
    """A Service. The scheduler's default spread constraints count the pods of the Services that select a pod."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ServiceSpec = field(default_factory=ServiceSpec)
