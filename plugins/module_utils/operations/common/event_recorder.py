# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Events on pods, nodes and workloads about actions. The actions do not depend on the Events.

The callers choose reason and text: for restarts ``restart/rollout.py``, for evictions ``restart/eviction.py``, and for outcomes the callers
of ``finalize`` in ``restart/outcome_store.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, is_permission_error
from ...kube.client.events import CLUSTER_NAMESPACE, ObjectReference, make_event, node_reference, pod_reference, workload_reference
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.values.timestamps import format_time


class EventRecorder:
    """Writes Events on pods of ``namespaces``, on nodes and on workloads.

    ``on_error`` gets the errors of writes. After a permission error, no further Event is written in that namespace.
    """

    def __init__(self, api: KubeApi, on_error: Callable[[str], None], namespaces: Collection[str] = ()) -> None:
        self._api, self._on_error = api, on_error
        self._namespaces = frozenset(namespaces)
        self._forbidden_namespaces: set[str] = set()

    def on_pod(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """Write an Event on a pod; none if the pod is in another namespace. ``reason`` is CamelCase."""
        if pod.metadata.namespace in self._namespaces:
            self._write(pod.metadata.namespace, pod_reference(pod), reason, message, warning=warning)

    def on_node(self, node: Node, reason: str, message: str) -> None:
        """Write an Event on a node."""
        self._write(CLUSTER_NAMESPACE, node_reference(node), reason, message)

    def on_workload(self, workload: Workload, reason: str, message: str, *, warning: bool = False) -> None:
        """Write an Event on a workload of any namespace."""
        self._write(workload.metadata.namespace, workload_reference(workload), reason, message, warning=warning)

    def _write(self, namespace: str, involved: ObjectReference, reason: str, message: str, *, warning: bool = False) -> None:
        if namespace in self._forbidden_namespaces:
            return
        event = make_event(involved, reason=reason, message=message, time=format_time(self._api.now_s()), warning=warning)
        try:
            self._api.create_event(namespace, event)
        except KubeError as error:
            if is_permission_error(error):
                self._forbidden_namespaces.add(namespace)
            self._on_error(f"no event was written: {error}")
