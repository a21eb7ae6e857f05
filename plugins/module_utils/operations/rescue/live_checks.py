# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What the API server says of a pod or a node right now. A watch may be seconds behind, and an eviction cannot be taken back."""

from __future__ import annotations

import typing as t

from ...kube.client.api import KubeApi
from ...kube.client.errors import ApiError, KubeError, MultipleBudgetsError, NotFoundError, ResponseDecodeError, UnreachableError
from ...kube.client.resources import NODES, PODS
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.values.quantity import QuantityError
from ...model.values.quantity_check import check_quantities
from ...rescue.critical import is_unschedulable
from ...state.hold import Hold

EVICTED = "EvictionByEvictionAPI"
"""The reason of the condition DisruptionTarget that the API server writes on the pods it evicts."""


def read_pod(api: KubeApi, known: Pod) -> t.Optional[Pod]:
    """Exactly this pod as it is now; None where it is gone, whatever pod has its name. Raises KubeError."""
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
    """The node as it is now; None where it is gone. Raises KubeError."""
    try:
        found: Node = api.get(NODES, "", name)
    except NotFoundError:
        return None
    return found


def is_evicted(now: t.Optional[Pod]) -> bool:
    """A pod whose eviction was asked for, without an answer, has been evicted. A pod that is gone counts as evicted by this program."""
    if now is None:
        return True
    evicted = any(one.type == "DisruptionTarget" and one.status == "True" and one.reason == EVICTED for one in now.status.conditions or ())
    return now.terminating and evicted


def may_have_succeeded(error: KubeError) -> bool:
    """The error leaves open whether the API server has carried out the request."""
    if isinstance(error, UnreachableError):
        return True
    return isinstance(error, ApiError) and error.status >= 500 and not isinstance(error, MultipleBudgetsError)


def pod_changed_message(now: t.Optional[Pod], known: Pod, node_name: str) -> t.Optional[str]:
    """Why no pod of the node may be evicted for this one; None where it still waits, and nothing else has been done for it meanwhile."""
    if now is None:
        return "it is gone"
    if now.spec.node_name:
        return f"it is bound to node {now.spec.node_name}"
    nominated = now.status.nominated_node_name
    if nominated not in ("", node_name, known.status.nominated_node_name):
        return f"it is nominated for node {nominated}"
    return None if is_unschedulable(now) else "it no longer waits for a node"


def lost_hold_violation(node: Node, hold: t.Optional[Hold]) -> t.Optional[Reason]:
    """The taint that keeps the node is no longer there; None where it is, or where no taint keeps the node."""
    if hold is None or hold.taint is None or hold.taint in (node.spec.taints or ()):
        return None
    return Reason("not_kept", "the taint that kept others off has been removed")
