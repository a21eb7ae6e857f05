# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes Events on the objects that were changed, so that ``kubectl describe`` shows the action and its reason."""

from __future__ import annotations

import typing as t
import uuid

from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.api.workload import Workload

COMPONENT = "onprem.kube_scheduling"
MAX_NAME_LENGTH = 253
MAX_MESSAGE_LENGTH = 1024
CLUSTER_NAMESPACE = "default"
"""The namespace of Events on objects without a namespace (kubernetes ``pkg/apis/core/validation/events.go``)."""


class ObjectReference(t.NamedTuple):
    """The object of an Event. ``namespace`` is empty for an object of the whole cluster."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = ""
    resource_version: str = ""


def pod_reference(pod: Pod) -> ObjectReference:
    """Return the reference to a pod."""
    return _reference("v1", "Pod", pod.metadata)


def node_reference(node: Node) -> ObjectReference:
    """Return the reference to a node."""
    return _reference("v1", "Node", node.metadata)


def workload_reference(workload: Workload) -> ObjectReference:
    """Return the reference to a workload."""
    return _reference("apps/v1", workload.kind, workload.metadata)


def make_event(involved: ObjectReference, *, reason: str, message: str, time: str, warning: bool = False) -> dict[str, t.Any]:
    """Return a core/v1 Event. ``reason`` is CamelCase, ``time`` RFC 3339. Its namespace is the one in its metadata."""
    suffix = f".{uuid.uuid4().hex[:16]}"
    named = {
        "apiVersion": involved.api_version,
        "kind": involved.kind,
        "namespace": involved.namespace,
        "name": involved.name,
        "uid": involved.uid,
        "resourceVersion": involved.resource_version,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": involved.namespace or CLUSTER_NAMESPACE,
            "name": involved.name[: MAX_NAME_LENGTH - len(suffix)].rstrip(".-") + suffix,
        },
        "involvedObject": {name: text for name, text in named.items() if text},
        "reason": reason,
        "message": message[:MAX_MESSAGE_LENGTH],
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


def _reference(api_version: str, kind: str, metadata: ObjectMeta) -> ObjectReference:
    return ObjectReference(kind, metadata.namespace, metadata.name, metadata.uid, api_version, metadata.resource_version)
