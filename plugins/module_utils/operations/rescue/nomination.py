# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nominates a pod for a node, as the scheduler does for a pod that it preempts for: less important pods must leave it the room there.

Source: kubernetes KEP-5278. The scheduler takes the nomination away again whenever it has tried the pod in vain.
"""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import NotFoundError, PatchTestError
from ...kube.client.resources import POD_STATUS
from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod

_PATH = "/status/nominatedNodeName"


def nominate(api: KubeApi, pod: Pod, node_name: str, *, dry_run: bool = False) -> bool:
    """Nominate exactly this pod; false where it is gone, bound, or nominated for whatever node already. Raises KubeError."""
    operation = {"op": "add", "path": _PATH, "value": node_name}
    return _patch(api, pod.metadata, None, operation, dry_run=dry_run)


def withdraw(api: KubeApi, pod: ObjectMeta, node_name: str) -> None:
    """Take away exactly this nomination, if it is there and the pod not bound. Raises KubeError."""
    _patch(api, pod, node_name, {"op": "remove", "path": _PATH})


def _patch(api: KubeApi, pod: ObjectMeta, nominated: t.Optional[str], operation: dict[str, t.Any], *, dry_run: bool = False) -> bool:
    expected = {"/metadata/uid": pod.uid, "/spec/nodeName": None, _PATH: nominated}
    tests = [{"op": "test", "path": path, "value": value} for path, value in expected.items()]
    try:
        api.json_patch(POD_STATUS, pod.namespace, pod.name, [*tests, operation], dry_run=dry_run)
    except (NotFoundError, PatchTestError):
        return False
    return True
