# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes that are valid only for the object that was read: read, patch with the resource version, repeat after a conflict."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError
from ...kube.client.resources import WORKLOADS
from ...model.api.workload import Workload
from ...model.codec import member

CONFLICT_RETRIES = 5


class LiveWorkload(t.NamedTuple):
    """A workload as it was just read, and its whole template as the server writes it.

    The struct of the workload has only a part of the template.
    """

    workload: Workload
    template: bytes


def read_live_workload(api: KubeApi, workload: Workload) -> LiveWorkload:
    """Return the workload of this kind, namespace and name. Raise NotFoundError, ForbiddenError, ApiError, UnreachableError."""
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    data = api.get_bytes(resource, metadata.namespace, metadata.name)
    return LiveWorkload(resource.decode(data), member(data, "spec", "template") or b"")


Annotations = dict[str, t.Optional[str]]
"""Annotations by name; None removes an annotation."""


def patch_annotations(api: KubeApi, workload: Workload, annotations_for: t.Callable[[LiveWorkload], Annotations]) -> LiveWorkload:
    """Read the workload and write the annotations that ``annotations_for`` returns for it.

    Repeat both after a conflict. ``annotations_for`` raises an error if nothing may be written any more. Return the workload as last read.
    Raise ConflictError if the workload keeps changing, and the errors of ``KubeApi.merge_patch``.
    """
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    unanswered: t.Optional[Annotations] = None
    for left in reversed(range(CONFLICT_RETRIES)):
        live = read_live_workload(api, workload)
        now = live.workload.metadata
        if unanswered is not None and all((now.annotations or {}).get(name) == text for name, text in unanswered.items()):
            return live  # the write had succeeded, only the response was lost
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
