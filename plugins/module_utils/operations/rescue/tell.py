# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Events on pods and nodes about what is done; the work does not depend on them."""

from __future__ import annotations

from collections.abc import Collection

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, is_permission_error
from ...kube.client.events import CLUSTER_NAMESPACE, ObjectReference, make_event, node_reference, pod_reference
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.values.timestamps import format_time
from .witness import Witness


class Teller:
    """Writes Events on pods of ``namespaces`` and on nodes; what cannot be written is told to the witness, a missing role once."""

    def __init__(self, api: KubeApi, witness: Witness, namespaces: Collection[str]) -> None:
        self._api, self._witness = api, witness
        self._namespaces = frozenset(namespaces)
        self._barred: set[str] = set()

    def of_pod(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event on a pod, none where the pod is in another namespace; ``reason`` is CamelCase."""
        if pod.metadata.namespace in self._namespaces:
            self._write(pod.metadata.namespace, pod_reference(pod), reason, message, warning=warning)

    def of_node(self, node: Node, reason: str, message: str) -> None:
        """An Event on a node."""
        self._write(CLUSTER_NAMESPACE, node_reference(node), reason, message)

    def _write(self, namespace: str, involved: ObjectReference, reason: str, message: str, *, warning: bool = False) -> None:
        if namespace in self._barred:
            return
        event = make_event(involved, reason=reason, message=message, time=format_time(self._api.now_s()), warning=warning)
        try:
            self._api.create_event(namespace, event)
        except KubeError as error:
            if is_permission_error(error):
                self._barred.add(namespace)
            self._witness.troubled(f"no event was written: {error}")
