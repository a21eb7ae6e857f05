# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes Events on the objects that were acted on, so that ``kubectl describe`` says what was done and why."""

from __future__ import annotations

import typing as t
import uuid

from ..model.objects import Node, ObjectMeta, OwnerReference, Pod, Workload

COMPONENT = "onprem.kube_scheduling"
LONGEST_NAME = 253
LONGEST_MESSAGE = 1024
CLUSTER_NAMESPACE = "default"
"""Where Events on objects without a namespace are kept (kubernetes ``pkg/apis/core/validation/events.go``)."""


class Involved(t.NamedTuple):
    """The object that an Event is about; an empty ``namespace`` for one of the whole cluster."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = ""
    resource_version: str = ""


def pod_involved(pod: Pod) -> Involved:
    """A pod."""
    return _involved("v1", "Pod", pod.metadata)


def node_involved(node: Node) -> Involved:
    """A node."""
    return _involved("v1", "Node", node.metadata)


def owner_involved(owner: OwnerReference, namespace: str) -> Involved:
    """What an object in ``namespace`` belongs to."""
    return Involved(owner.kind, namespace, owner.name, owner.uid)


def workload_event(workload: Workload, *, reason: str, message: str, time: str, warning: bool = False) -> dict[str, t.Any]:
    """A core/v1 Event on a workload; ``reason`` is CamelCase, ``time`` RFC 3339."""
    involved = _involved("apps/v1", workload.kind, workload.metadata)
    return event_on(involved, reason=reason, message=message, time=time, warning=warning)


def event_on(involved: Involved, *, reason: str, message: str, time: str, warning: bool = False) -> dict[str, t.Any]:
    """A core/v1 Event; ``reason`` is CamelCase, ``time`` RFC 3339. It belongs into the namespace that its metadata name."""
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
            "name": involved.name[: LONGEST_NAME - len(suffix)].rstrip(".-") + suffix,
        },
        "involvedObject": {name: text for name, text in named.items() if text},
        "reason": reason,
        "message": message[:LONGEST_MESSAGE],
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


def _involved(api_version: str, kind: str, metadata: ObjectMeta) -> Involved:
    return Involved(kind, metadata.namespace, metadata.name, metadata.uid, api_version, metadata.resource_version)
