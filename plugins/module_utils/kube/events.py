# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes Events on the objects that were acted on, so that ``kubectl describe`` says what was done and why."""

from __future__ import annotations

import typing as t
import uuid

from ..model.objects import Workload

COMPONENT = "onprem.kube_scheduling"
LONGEST_NAME = 253
LONGEST_MESSAGE = 1024


def workload_event(workload: Workload, *, reason: str, message: str, time: str, warning: bool = False) -> dict[str, t.Any]:
    """A core/v1 Event on a workload; ``reason`` is CamelCase, ``time`` RFC 3339."""
    metadata = workload.metadata
    suffix = f".{uuid.uuid4().hex[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": metadata.namespace, "name": metadata.name[: LONGEST_NAME - len(suffix)].rstrip(".-") + suffix},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": workload.kind,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
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
