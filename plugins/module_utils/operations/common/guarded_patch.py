# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes that hold only for the object that was read: read, patch with the resource version, repeat after a conflict."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError
from ...kube.client.resources import WORKLOADS
from ...model.api.workload import Workload
from ...model.codec import member

CONFLICT_RETRIES = 5


class LiveWorkload(t.NamedTuple):
    """A workload as it was just read, and its whole template as the server writes it: the struct holds only a part of that."""

    workload: Workload
    template: bytes


def read_live_workload(api: KubeApi, workload: Workload) -> LiveWorkload:
    """The workload of this kind, namespace and name. Raises NotFoundError, ForbiddenError, ApiError, UnreachableError."""
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    data = api.get_bytes(resource, metadata.namespace, metadata.name)
    return LiveWorkload(resource.decode(data), member(data, "spec", "template") or b"")


Annotations = dict[str, t.Optional[str]]
"""None takes an annotation away."""


def patch_annotations(api: KubeApi, workload: Workload, annotations_for: t.Callable[[LiveWorkload], Annotations]) -> LiveWorkload:
    """Read the workload and give it the annotations that ``annotations_for`` wants after what was read; both again after a conflict.

    ``annotations_for`` raises where nothing may be written any more. Returns what was read last. Raises ConflictError where the workload
    keeps changing, and what ``KubeApi.merge_patch`` raises.
    """
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    unanswered: t.Optional[Annotations] = None
    for left in reversed(range(CONFLICT_RETRIES)):
        live = read_live_workload(api, workload)
        now = live.workload.metadata
        if unanswered is not None and all((now.annotations or {}).get(name) == text for name, text in unanswered.items()):
            return live  # it had got through, only the answer was lost
        wanted = annotations_for(live)
        patch = {"metadata": {"resourceVersion": now.resource_version, "annotations": wanted}}
        try:
            api.merge_patch(resource, metadata.namespace, metadata.name, patch)
            return live
        except ConflictError as error:
            unanswered = wanted if error.repeated else None
            if not left:
                raise
    raise AssertionError("unreachable")
