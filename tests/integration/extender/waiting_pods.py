# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods for a second scheduler, created one by one, and where it binds them."""

from __future__ import annotations

import itertools
from typing import Any

from lab.cluster import Cluster
from tests.integration.workloads import IMAGE, wait_until

Json = dict[str, Any]

BOUND_WITHIN_S = 30.0


class WaitingPods:
    """Pods of one namespace that only run on workers."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._api = cluster.api
        self.namespace = namespace
        self._numbers = itertools.count(1)

    def create(self, scheduler_name: str, **annotations: str) -> str:
        """Create a pod without requests, and return its name."""
        name = f"pod-{next(self._numbers)}"
        spec = {
            "schedulerName": scheduler_name,
            "containers": [{"name": "main", "image": IMAGE}],
            "terminationGracePeriodSeconds": 0,
        }
        self._api.post(f"/api/v1/namespaces/{self.namespace}/pods", {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
        return name

    def node_of(self, name: str) -> str:
        """Return the node of a pod, or an empty text."""
        node: str = self.get(name)["spec"].get("nodeName", "")
        return node

    def get(self, name: str) -> Json:
        return self._api.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def bind(self, count: int, scheduler_name: str, **annotations: str) -> list[str]:
        """Create so many pods, each after the scheduler has bound the one before, and return their nodes."""
        return [self.wait_bound(self.create(scheduler_name, **annotations)) for _ in range(count)]

    def wait_bound(self, name: str) -> str:
        """Wait until a pod is bound, and return its node."""
        wait_until(lambda: self.node_of(name), timeout_s=BOUND_WITHIN_S, what=f"the node of {name}")
        return self.node_of(name)

    def scheduled_by(self, name: str) -> str:
        """Return the scheduler's name in the event of the binding."""
        selector = f"involvedObject.name%3D{name},reason%3DScheduled"
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector={selector}"
        wait_until(lambda: self._api.get(path)["items"], timeout_s=BOUND_WITHIN_S, what=f"the event of {name}")
        (event,) = self._api.get(path)["items"]
        reporter: str = event.get("reportingComponent") or event["source"]["component"]
        return reporter
