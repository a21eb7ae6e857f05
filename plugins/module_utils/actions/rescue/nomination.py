# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominates a pod for a node, as the scheduler does for a pod that it preempts for: less important pods must leave it the room there.

Source: kubernetes KEP-5278. The scheduler takes the nomination away again whenever it has tried the pod in vain.
"""

from __future__ import annotations

import typing as t

from ...kube.api import KubeApi
from ...kube.errors import NotFoundError, PatchTestError
from ...kube.resources import POD_STATUS
from ...model.objects import Pod

_PATH = "/status/nominatedNodeName"


def nominate(api: KubeApi, pod: Pod, node_name: str, *, dry_run: bool = False) -> bool:
    """Nominate exactly this pod; false where there is no such pod any more. Raises KubeError."""
    return _patch(api, pod, [{"op": "add", "path": _PATH, "value": node_name}], dry_run=dry_run)


def withdraw(api: KubeApi, pod: Pod, node_name: str) -> None:
    """Take away exactly this nomination, if it is there. Raises KubeError."""
    _patch(api, pod, [{"op": "test", "path": _PATH, "value": node_name}, {"op": "remove", "path": _PATH}])


def _patch(api: KubeApi, pod: Pod, operations: list[dict[str, t.Any]], *, dry_run: bool = False) -> bool:
    metadata = pod.metadata
    same_pod = {"op": "test", "path": "/metadata/uid", "value": metadata.uid}
    try:
        api.json_patch(POD_STATUS, metadata.namespace, metadata.name, [same_pod, *operations], dry_run=dry_run)
    except (NotFoundError, PatchTestError):
        return False
    return True
