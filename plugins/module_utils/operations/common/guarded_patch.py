# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes that are valid only for the object that was read: read, write with the resource version, repeat after a conflict."""

from __future__ import annotations

import time
import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError
from ...kube.client.resources import WORKLOADS
from ...model.api.workload import Workload
from ...model.backoff import Backoff
from ...model.codec import member

MAX_TRIES = 5

R = t.TypeVar("R")


def write_guarded(
    read: t.Callable[[], R],
    write: t.Callable[[R], None],
    is_written: t.Callable[[R], bool],
    *,
    attempts: int = MAX_TRIES,
    backoff: t.Optional[Backoff] = None,
) -> R:
    """Read an object and write to it. Repeat both after a conflict, at most ``attempts`` times in all. Return the object as last read.

    ``write`` sends a write that is valid only for the object as read. It raises an error if nothing may be written any more. ``is_written``
    returns whether the object as read has the content of the last write. It is called only if the answer to that write was lost. In all
    other cases the same content is from another writer, and the write is repeated. ``backoff``: the pauses after conflicts. Raise
    ConflictError if the object keeps changing.
    """
    for conflicts in range(1, attempts + 1):
        found = read()
        try:
            write(found)
            return found
        except ConflictError as error:
            if error.repeated:
                found = _read_after_lost_answer(read)
                if is_written(found):
                    return found  # the write had succeeded, only its answer was lost
            if conflicts == attempts:
                raise
        if backoff is not None:
            time.sleep(backoff.pause_s(conflicts))
    raise AssertionError("unreachable")


def _read_after_lost_answer(read: t.Callable[[], R]) -> R:
    """Return the object. An error of the read says that the write may have succeeded."""
    try:
        return read()
    except KubeError as error:
        error.repeated = True
        raise


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


AnnotationPatch = dict[str, t.Optional[str]]
"""Annotations by name; None removes an annotation."""


def patch_annotations(api: KubeApi, workload: Workload, annotations_for: t.Callable[[LiveWorkload], AnnotationPatch]) -> LiveWorkload:
    """Read the workload and write the annotations that ``annotations_for`` returns for it.

    Repeat both after a conflict. ``annotations_for`` raises an error if nothing may be written any more. Return the workload as last read.
    Raise ConflictError if the workload keeps changing, and the errors of ``KubeApi.merge_patch``.
    """
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    wanted: AnnotationPatch = {}

    def write(live: LiveWorkload) -> None:
        nonlocal wanted
        wanted = annotations_for(live)
        patch = {"metadata": {"resourceVersion": live.workload.metadata.resource_version, "annotations": wanted}}
        api.merge_patch(resource, metadata.namespace, metadata.name, patch)

    def is_written(live: LiveWorkload) -> bool:
        present = live.workload.metadata.annotations or {}
        return all(present.get(name) == text for name, text in wanted.items())

    return write_guarded(lambda: read_live_workload(api, workload), write, is_written)
