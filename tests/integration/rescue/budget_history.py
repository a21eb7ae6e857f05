# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of healthy pods of each PodDisruptionBudget at each moment, from the API server's history of the pods."""

from __future__ import annotations

import json
from typing import Any

from lab.cluster import Cluster
from tests.integration.rescue.random_scene import RandomScene
from tests.integration.rescue.scene import is_ready

Json = dict[str, Any]


class BudgetHistory:
    """The history of the cluster's pods from the creation of this object until the call of ``breaches``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        first = cluster.get("/api/v1/pods")
        self._version = first["metadata"]["resourceVersion"]
        self._first = [({"type": "ADDED", "object": pod}) for pod in first["items"]]

    def breaches(self, scenes: list[RandomScene]) -> dict[str, list[str]]:
        """By the scene's id: the moments at which a budget of the scene had fewer healthy pods than it asks for."""
        path = f"/api/v1/pods?watch=1&resourceVersion={self._version}&timeoutSeconds=1"
        response = self._cluster.api.request("GET", path)
        assert response.status == 200, response.message
        later = [json.loads(line) for line in response.body.splitlines()]
        assert all(event["type"] in ("ADDED", "MODIFIED", "DELETED") for event in later)
        return {scene.id: _breaches(scene, self._first, later) for scene in scenes}


def _breaches(scene: RandomScene, first: list[Json], later: list[Json]) -> list[str]:
    minima = {item["metadata"]["name"]: item["spec"]["minAvailable"] for item in scene.budgets()}
    groups = {budget.name: budget.groups for budget in scene.task.budgets}
    healthy: dict[str, str] = {}
    found: list[str] = []
    for number, event in enumerate([*first, *later]):
        pod = event["object"]
        metadata = pod["metadata"]
        if metadata["namespace"] != scene.namespace:
            continue
        healthy.pop(metadata["name"], None)
        if event["type"] != "DELETED" and is_ready(pod) and "deletionTimestamp" not in metadata:
            healthy[metadata["name"]] = metadata["labels"]["app"]
        if number < len(first):
            continue
        for name, least in minima.items():
            count = sum(app in groups[name] for app in healthy.values())
            if count < least:
                found.append(f"budget {name} had {count} healthy pods instead of {least} after {event['type']} of {metadata['name']}")
    return found
