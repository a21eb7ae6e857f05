# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Create a pod every INTERVAL seconds (default: 0.2) until the file STOP exists, and print how long the pods have waited for a node.

The pods have the selector of a Node object without a kubelet, which is made for them, so they use nothing of the cluster.
Usage: pod_stream.py KUBECONFIG SCHEDULER STOP [INTERVAL]
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from kubernetes import client, config, watch

LAST_WAIT_S = 60.0
DELETED_TOGETHER = 200
NAME = "pod-stream"
LABELS = {"app": NAME}


def node() -> dict[str, object]:
    size = {"cpu": "1000", "memory": "1000Gi", "pods": "100000"}
    status = {"capacity": size, "allocatable": size, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": NAME, "labels": LABELS}, "status": status}


def pod(number: int, scheduler: str) -> dict[str, object]:
    return {
        "metadata": {"name": f"{NAME}-{number}", "labels": LABELS},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": LABELS,
            # Nobody renews the Lease of the node, so it gets taints.
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "imagePullPolicy": "Never"}],
        },
    }


def main(kubeconfig: str, scheduler: str, stop: str, interval: str = "0.2") -> None:
    interval_s = float(interval)
    config.load_kube_config(kubeconfig)
    api = client.CoreV1Api()
    created: dict[str, float] = {}
    bound: dict[str, float] = {}

    def follow() -> None:
        for event in watch.Watch().stream(client.CoreV1Api().list_namespaced_pod, "default", label_selector=f"app={NAME}"):
            if event["object"].spec.node_name:
                bound.setdefault(event["object"].metadata.name, time.monotonic())

    api.create_node(node())
    api.patch_node_status(NAME, node())
    threading.Thread(target=follow, daemon=True).start()
    while not Path(stop).exists():
        name = f"{NAME}-{len(created)}"
        created[name] = time.monotonic()
        api.create_namespaced_pod("default", pod(len(created) - 1, scheduler))
        time.sleep(interval_s)
    end = time.monotonic() + LAST_WAIT_S
    while len(bound) < len(created) and time.monotonic() < end:
        time.sleep(interval_s)
    waits = sorted(bound[name] - created[name] for name in created if name in bound)
    longest = round(waits[-1], 2) if waits else None
    print(json.dumps({"scheduler": scheduler, "pods": len(created), "unbound": len(created) - len(waits), "longest_wait_s": longest}))
    # One request for thousands of pods would take longer than the API server permits.
    while api.list_namespaced_pod("default", label_selector=f"app={NAME}", limit=1).items:
        api.delete_collection_namespaced_pod("default", label_selector=f"app={NAME}", grace_period_seconds=0, limit=DELETED_TOGETHER)
    api.delete_node(NAME)


if __name__ == "__main__":
    main(*sys.argv[1:])
