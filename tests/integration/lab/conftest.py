# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Helpers of the lab's own tests: objects in few words, and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from lab.api import ApiClient
from lab.cluster import Cluster

Value = TypeVar("Value")


def wait_for(look: Callable[[], Value], *, timeout_s: float = 30.0) -> Value:
    """Look until the answer is truthy, and return it."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"not seen within {timeout_s:.0f} s"
        time.sleep(0.02)
    return found


class Pods:
    """Pods of one namespace, bound to a worker unless said otherwise."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self.api = api
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(
        self,
        name: str,
        *,
        node: str = "worker-1",
        grace_s: int = 30,
        annotations: dict[str, str] | None = None,
        finalizers: list[str] | None = None,
    ) -> None:
        metadata = {"name": name, "annotations": annotations or {}, "finalizers": finalizers or []}
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": grace_s,
            "containers": [{"name": "main", "image": "example.invalid/app:1"}],
        }
        self.api.post(self.path, {"metadata": metadata, "spec": spec})

    def running(self, name: str, **options: Any) -> None:
        self.create(name, **options)
        wait_for(lambda: self.phase(name) == "Running")

    def get(self, name: str) -> dict[str, Any] | None:
        return self.api.find(f"{self.path}/{name}")

    def phase(self, name: str) -> str | None:
        pod = self.get(name)
        return str(pod["status"]["phase"]) if pod else None

    def ready(self, name: str) -> bool:
        pod = self.get(name)
        conditions = pod["status"].get("conditions", []) if pod else []
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.path}/{name}")

    def gone(self, name: str) -> bool:
        return self.get(name) is None

    def patch_metadata(self, name: str, metadata: dict[str, Any]) -> None:
        self.api.merge_patch(f"{self.path}/{name}", {"metadata": metadata})


@pytest.fixture(scope="module")
def pods(lab_cluster: Cluster, namespaces: Callable[..., str]) -> Pods:
    return Pods(lab_cluster.api, namespaces("lab"))
