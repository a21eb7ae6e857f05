# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Events on pods and nodes about what is done; the work does not depend on them."""

from __future__ import annotations

from ...kube.api import KubeApi
from ...kube.errors import KubeError
from ...kube.events import node_event, pod_event
from ...memory.timestamps import format_time
from ...model.objects import Node, Pod
from .witness import Witness

NODE_EVENTS_NAMESPACE = "default"
"""Where the API server wants Events about what has no namespace."""


class Teller:
    """Writes Events; what cannot be written is told to the witness."""

    def __init__(self, api: KubeApi, witness: Witness) -> None:
        self._api, self._witness = api, witness

    def of_pod(self, pod: Pod, reason: str, message: str, *, warning: bool = False) -> None:
        """An Event on a pod; ``reason`` is CamelCase."""
        event = pod_event(pod, reason=reason, message=message, time=format_time(self._api.now_s()), warning=warning)
        self._write(pod.metadata.namespace, event)

    def of_node(self, node: Node, reason: str, message: str) -> None:
        """An Event on a node."""
        event = node_event(node, reason=reason, message=message, time=format_time(self._api.now_s()))
        self._write(NODE_EVENTS_NAMESPACE, event)

    def _write(self, namespace: str, event: dict[str, object]) -> None:
        try:
            self._api.create_event(namespace, event)
        except KubeError as error:
            self._witness.troubled(f"no event was written: {error}")
