# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The resources of a pod as quotas and limit ranges count them."""

from __future__ import annotations

from collections.abc import Hashable

from ....model.api.meta import ResourceList
from ....model.api.pod import Container, Pod
from ....model.codec import encode_json


def container_resources(container: Container, part: str) -> ResourceList:
    """Return the container's limits, or its requests. The API server sets missing requests to the limits."""
    resources = container.resources
    if resources is None:
        return {}
    limits = resources.limits or {}
    return limits if part == "limits" else {**limits, **(resources.requests or {})}


def resource_names(pod: Pod) -> set[str]:
    """Return the resources that the pod may use."""
    parts = [container.resources for container in pod.spec.all_containers] + [pod.spec.resources]
    found = set(pod.spec.overhead or ())
    for part in parts:
        if part is not None:
            found.update(part.requests or (), part.limits or ())
    return found


def admission_key(pod: Pod) -> Hashable:
    """Return a key that is equal for pods that are equal for quotas and limit ranges."""
    spec = pod.spec
    return encode_json((spec.containers, spec.init_containers, spec.resources, spec.overhead, spec.priority_class_name))
