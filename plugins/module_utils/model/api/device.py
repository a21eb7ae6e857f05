# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Device classes for dynamic resource allocation (resource.k8s.io/v1), and a check for the names of extended resources."""

from __future__ import annotations

from ..codec import field
from .meta import ApiStruct, ObjectMeta


class DeviceClassSpec(ApiStruct, frozen=True):
    """The spec of a device class. ``extended_resource_name`` is the resource that pods may request instead of the class."""

    extended_resource_name: str = ""


class DeviceClass(ApiStruct, frozen=True):
    """A class of devices for dynamic resource allocation."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def is_extended(resource: str) -> bool:
    """Return whether the resource is an extended resource.

    Its name has a prefix, and the prefix is not one of Kubernetes or of a device class (k8s.io/component-helpers
    ``scheduling/corev1/helpers.go``).
    """
    return "/" in resource and "kubernetes.io/" not in resource
