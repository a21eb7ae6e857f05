# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads of a pod or a node from the API server. A watch may be seconds behind, and an eviction cannot be undone."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import NotFoundError, ResponseDecodeError
from ...kube.client.resources import NODES, PODS
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.values.quantity import QuantityError
from ...model.values.quantity_check import check_quantities
from ...rescue.critical import is_unschedulable
from ...state.hold import Hold

EVICTION_API_REASON = "EvictionByEvictionAPI"
"""The reason of the condition DisruptionTarget that the API server writes on the pods it evicts."""

HOLD_LOST = Reason("hold_lost", "the taint that reserved the node was removed")


def read_pod(api: KubeApi, known: Pod) -> t.Optional[Pod]:
    """Return the current state of exactly this pod. None if it is gone, even if another pod has its name. Raise KubeError."""
    metadata = known.metadata
    try:
        found: Pod = api.get(PODS, metadata.namespace, metadata.name)
        check_quantities(found)
    except NotFoundError:
        return None
    except QuantityError as error:
        raise ResponseDecodeError(f"pods {metadata.namespace}/{metadata.name}: {error}") from error
    return found if found.metadata.uid == metadata.uid else None


def read_node(api: KubeApi, name: str) -> t.Optional[Node]:
    """Return the current state of the node. None if it is gone. Raise KubeError."""
    try:
        found: Node = api.get(NODES, "", name)
    except NotFoundError:
        return None
    return found


def is_evicted(now: t.Optional[Pod]) -> bool:
    """Return whether the pod of an eviction without an answer was evicted. A pod that is gone counts as evicted by this program."""
    if now is None:
        return True
    evicted = any(
        one.type == "DisruptionTarget" and one.status == "True" and one.reason == EVICTION_API_REASON for one in now.status.conditions or ()
    )
    return now.terminating and evicted


def pod_changed_violation(now: t.Optional[Pod], known: Pod, node_name: str) -> t.Optional[Reason]:
    """Return the reason why no pod of the node may be evicted for this pod. None if it still waits and is not nominated elsewhere."""
    if now is None:
        return Reason("pod_gone", "it is gone")
    if now.spec.node_name:
        return Reason("bound", f"it is bound to node {now.spec.node_name}")
    nominated = now.status.nominated_node_name
    if nominated not in ("", node_name, known.status.nominated_node_name):
        return Reason("preemption_under_way", f"it is nominated for node {nominated}")
    return None if is_unschedulable(now) else Reason("not_reported_yet", "it no longer waits for a node")


def lost_hold_violation(node: Node, hold: t.Optional[Hold]) -> t.Optional[Reason]:
    """Return the reason if the taint of the hold has been removed. None if it is there, or if no taint reserves the node."""
    if hold is None or hold.taint is None or hold.taint in (node.spec.taints or ()):
        return None
    return HOLD_LOST
