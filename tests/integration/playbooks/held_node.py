# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A node that is held, as a rescuer that was killed leaves it."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import HOLD_ANNOTATION, Hold, hold_patch

from lab.cluster import Cluster

KEY = "CriticalAddonsOnly"


def hold_node(cluster: Cluster) -> str:
    """Hold a node for a pod that does not exist any more. The ConfigMap of the rescuer exists, too. Return the node."""
    node = next(node for node in cluster.get("/api/v1/nodes")["items"] if not node["spec"].get("taints"))
    name: str = node["metadata"]["name"]
    cluster.kubectl("--namespace", "kube-system", "create", "configmap", "kube-scheduling-rescue", "--save-config")
    patch = hold_patch(node, Hold(KEY, "0" * 16, 2_000_000_000), "{}")
    cluster.kubectl("patch", "node", name, "--type=json", "--patch", json.dumps(patch))
    assert is_held(cluster, name)
    return name


def is_held(cluster: Cluster, name: str) -> bool:
    """Return whether the node has the annotation or the taint of a hold."""
    node = cluster.get(f"/api/v1/nodes/{name}")
    has_taint = any(taint["key"] == KEY for taint in node["spec"].get("taints") or ())
    return has_taint or HOLD_ANNOTATION in node["metadata"].get("annotations", {})
