# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Puts a hold on a node and takes it off again."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, NotFoundError, PatchTestError
from ...kube.client.resources import NODES
from ...state.hold import Hold, Json, JsonPatch, held_for_another, hold_patch, is_hold_on, release_patch

MOST_TRIES = 5
"""A write of somebody else's to the node's taints lies between reading and patching each time."""


class NodeTakenError(KubeError):
    """The node is held for another pod, or is gone."""


class NodeChangesError(KubeError):
    """The taints of the node do not stay the same for long enough to write a hold, or to remove it."""


def put_hold(api: KubeApi, node_name: str, hold: Hold, *, dry_run: bool = False) -> None:
    """Put the hold on the node, beside all its taints and in place of a mark that nothing proves.

    Raises NodeTakenError, NodeChangesError and KubeError; the node is then as it was.
    """

    def operations(node: Json) -> JsonPatch:
        if is_hold_on(node, hold):
            return []  # there already: only the answer was lost
        other = held_for_another(node, hold)
        if other is not None:
            raise NodeTakenError(f"node {node_name} is held for pod {other.namespace}/{other.pod}")
        return hold_patch(node, hold)

    try:
        _patch(api, node_name, operations, dry_run=dry_run)
    except NotFoundError as error:
        raise NodeTakenError(f"node {node_name} is gone") from error


def release_hold(api: KubeApi, node_name: str, hold: Hold) -> bool:
    """Take off exactly this hold; whether it was there. A node that is gone has none. Raises NodeChangesError and KubeError."""
    try:
        return _patch(api, node_name, lambda node: release_patch(node, hold))
    except NotFoundError:
        return False


def _patch(api: KubeApi, node_name: str, operations_for: t.Callable[[Json], JsonPatch], *, dry_run: bool = False) -> bool:
    for _try in range(MOST_TRIES):
        operations = operations_for(api.get_plain(NODES, "", node_name))
        if not operations:
            return False
        try:
            api.json_patch(NODES, "", node_name, operations, dry_run=dry_run)
            return True
        except PatchTestError:
            continue
    raise NodeChangesError(f"the hold of node {node_name} is neither written nor removed: its taints changed {MOST_TRIES} times meanwhile")
