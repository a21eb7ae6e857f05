# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The workload as it is at this moment, and changes to it that hold only for what was read."""

from __future__ import annotations

import typing as t

from ..kube.api import KubeApi
from ..kube.errors import ConflictError
from ..kube.resources import WORKLOADS
from ..model.objects import Workload
from ..model.wire import Raw, Struct, decode_json

CONFLICT_RETRIES = 5


class Live(t.NamedTuple):
    """A workload as it was just read, and its whole template as the server writes it: the struct holds only a part of that."""

    workload: Workload
    template: bytes


class _TemplateSpec(Struct, frozen=True):
    template: Raw


class _WholeTemplate(Struct, frozen=True):
    spec: _TemplateSpec


def read_live(api: KubeApi, workload: Workload) -> Live:
    """The workload of this kind, namespace and name. Raises NotFoundError, ForbiddenError, ApiError, UnreachableError."""
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    data = api.get_bytes(resource, metadata.namespace, metadata.name)
    return Live(resource.decode(data), bytes(decode_json(_WholeTemplate, data).spec.template))


def patch_live(api: KubeApi, workload: Workload, patch_for: t.Callable[[Live], dict[str, t.Any]]) -> Live:
    """Read the workload and patch it as ``patch_for`` wants after what was read; both again after a conflict. Returns what was read.

    ``patch_for`` raises where nothing may be written any more. Raises ConflictError where the workload keeps changing, and what
    ``KubeApi.merge_patch`` raises.
    """
    resource, metadata = WORKLOADS[workload.kind], workload.metadata
    for left in reversed(range(CONFLICT_RETRIES)):
        live = read_live(api, workload)
        try:
            api.merge_patch(resource, metadata.namespace, metadata.name, patch_for(live))
            return live
        except ConflictError:
            if not left:
                raise
    raise AssertionError("unreachable")
