# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A node that is held as a rescuer leaves it that was killed."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import (
    HOLD_ANNOTATION,
    HoldRecord,
    hold_patch,
    hold_record_key,
    make_hold,
)

from lab.cluster import Cluster

KEY = "CriticalAddonsOnly"
POD = {"metadata": {"namespace": "kube-system", "name": "dns", "uid": "0f1e"}, "spec": {}}


def hold_node(cluster: Cluster) -> str:
    """Hold a node for the pod kube-system/dns, which does not exist any more: the record, the taint and the annotation. Return the node."""
    node = next(node for node in cluster.get("/api/v1/nodes")["items"] if not node["spec"].get("taints"))
    name: str = node["metadata"]["name"]
    hold = make_hold(decode_json(Pod, json.dumps(POD)), key=KEY, deadline_s=2e9, writer="killed")
    record = HoldRecord(name, node["metadata"]["uid"], hold)
    literal = f"--from-literal={hold_record_key(name)}={record.to_text()}"
    cluster.kubectl("--namespace", "kube-system", "create", "configmap", "kube-scheduling-rescue", "--save-config", literal)
    cluster.kubectl("patch", "node", name, "--type=json", "--patch", json.dumps(hold_patch(node, hold)))
    assert is_held(cluster, name)
    return name


def is_held(cluster: Cluster, name: str) -> bool:
    """Return whether the node has the annotation or the taint of a hold."""
    node = cluster.get(f"/api/v1/nodes/{name}")
    has_taint = any(taint["key"] == KEY for taint in node["spec"].get("taints") or ())
    return has_taint or HOLD_ANNOTATION in node["metadata"].get("annotations", {})
